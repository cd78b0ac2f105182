"""A conversation of an incident: what a model and a tool would have said, about 3 KB a turn.

Seeded, so that every run of the benchmarks stores the same bytes. Words repeat and identifiers do
not, so it compresses about as well as real prose and logs do.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from agentrun.run.records import Json, Usage
from agentrun.run.values import Reply, Requested, ToolAnswer

PROSE, ARGUMENTS, RESULT = 800, 200, 2000
"""Bytes of a turn: the reply's text, its call's arguments, the tool's answer."""

_WORDS = tuple(
    """the a of to and in is that it for was on with as by this from be at which not have an or
are had but were one all we can there been if more when will would who so no out up into them some
could time these two may then do first any now such like our over man even most after also did many
service deploy rollback latency error timeout upstream gateway replica shard queue consumer lag
memory limit restart probe readiness traffic region zone certificate secret config rollout canary
metric alert threshold dashboard trace span request response retry budget saturation throughput
because before between might should looks suggests however meanwhile next check compare confirm
database connection pool exhausted migration lock index vacuum checkpoint replication failover""".split()  # noqa: SIM905 - a list of 150 quoted words reads worse
)
_LEVELS = ("INFO", "INFO", "INFO", "WARN", "ERROR")
_SERVICES = ("checkout", "payments", "search", "ledger", "inventory", "edge-proxy")


@dataclass(slots=True)
class Voices:
    """The model and the tool, both from one seed."""

    seed: int = 42

    def reply(self, turn: int) -> Reply:
        """Some prose and one call."""
        rng = random.Random(f"{self.seed}/{turn}/reply")
        arguments: Json = {
            "service": rng.choice(_SERVICES),
            "since": f"2026-03-{1 + turn % 28:02}T{rng.randrange(24):02}:00:00Z",
            "limit": rng.randrange(10, 500),
            "filter": _prose(rng, ARGUMENTS - 90),
        }
        asked = Requested(f"toolu_{rng.randbytes(12).hex()}", "ops__logs", arguments)
        content = [
            {"type": "text", "text": _prose(rng, PROSE)},
            {"type": "tool_use", "id": asked.id, "name": asked.name, "input": arguments},
        ]
        usage = Usage(input_tokens=900, output_tokens=260, cache_read_tokens=700 * turn)
        message = f"msg_{rng.randbytes(12).hex()}"
        return Reply(content, (asked,), "tool_use", "bench-model", message, usage)

    def answer(self, turn: int) -> ToolAnswer:
        """Lines of a log."""
        rng = random.Random(f"{self.seed}/{turn}/answer")
        lines: list[str] = []
        size = 0
        while size < RESULT:
            lines.append(_line(rng, turn))
            size += len(lines[-1]) + 1
        return ToolAnswer([{"type": "text", "text": "\n".join(lines)[:RESULT]}], False, 40)


def _prose(rng: random.Random, size: int) -> str:
    words: list[str] = []
    length = 0
    while length < size:
        # Squared: the first words are used more often, as in any language.
        words.append(_WORDS[int(rng.random() ** 2 * len(_WORDS))])
        length += len(words[-1]) + 1
    return " ".join(words)[:size]


def _line(rng: random.Random, turn: int) -> str:
    return (
        f"2026-03-{1 + turn % 28:02}T{rng.randrange(24):02}:{rng.randrange(60):02}:"
        f"{rng.randrange(60):02}.{rng.randrange(1000):03}Z {rng.choice(_LEVELS)}"
        f" {rng.choice(_SERVICES)}-{rng.randbytes(4).hex()} {_prose(rng, 60)}"
        f" id={rng.randbytes(8).hex()} took={rng.randrange(9000)}ms"
    )
