"""What may appear in logs and spans: a closed set of field names, and short plain values.

A closed set is the only rule that keeps prompts and tool data out of logs for good: content cannot
leak through a field that does not exist. A field outside the set is left out and its name reported,
so that whoever added it sees what happened.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from agentrun.errors import AgentRunError

FIELDS = frozenset(
    {
        "action",
        "agent",
        "approval",
        "attempt",
        "boundary",
        "bytes",
        "call",
        "cause",
        "code",
        "commits",
        "condition",
        "conversation",
        "count",
        "cpu_seconds",
        "decision",
        "exit_code",
        "failpoint",
        "fault",
        "fence",
        "field",
        "generation",
        "host",
        "installation",
        "key",
        "kind",
        "limit",
        "line",
        "logger",
        "model",
        "name",
        "namespace",
        "node",
        "object",
        "ordinal",
        "outcome",
        "phase",
        "pid",
        "pod",
        "policy",
        "port",
        "queue",
        "reason",
        "requested",
        "resource",
        "resource_version",
        "run",
        "run_id",
        "run_uid",
        "scope",
        "seconds",
        "seq",
        "server",
        "session",
        "signal",
        "snapshot_seq",
        "source",
        "state",
        "status",
        "step",
        "task",
        "tool",
        "tries",
        "ttl",
        "turn",
        "uid",
        "verb",
        "version",
        "wait",
    }
)
"""Names of facts about runs. None of them may ever hold content; add a name only if it cannot."""

LONGEST = 300
"""Characters of a value; messages of our own errors may have ``LONGEST_MESSAGE``."""
LONGEST_MESSAGE = 1000
MASK = "•••"
SHORTEST_SECRET = 6
"""A shorter "secret" would mask ordinary text."""


def admitted(fields: Mapping[str, object], secrets: Iterable[str] = ()) -> dict[str, object]:
    """``fields`` as they may be shown. Exceptions under ``error`` become their type and place."""
    shown: dict[str, object] = {}
    dropped: list[str] = []
    for name, value in fields.items():
        if name == "error" and isinstance(value, BaseException):
            shown.update(describe(value))
        elif name in FIELDS and value is not None:
            shown[name] = _plain(value)
        elif name not in FIELDS:
            dropped.append(name)
    if dropped:
        shown["dropped"] = ",".join(sorted(dropped))
    hidden = tuple(secrets)
    return {name: masked(value, hidden) for name, value in shown.items()}


def describe(error: BaseException) -> dict[str, object]:
    """An exception without content.

    Our own messages are written to be shown. Those of libraries and of bugs may quote what they
    choked on, so only the type and the place are shown.
    """
    shown: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, AgentRunError):
        shown["message"] = str(error)[:LONGEST_MESSAGE]
        return shown
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    places = [f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    if places:
        shown["at"] = " < ".join(reversed(places))
    return shown


def masked(value: object, secrets: Iterable[str]) -> object:
    """``value`` with every known secret in it covered."""
    if not isinstance(value, str):
        return value
    for secret in secrets:
        value = value.replace(secret, MASK)
    return value


def _plain(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else type(value).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
