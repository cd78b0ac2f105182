"""Runs to be disturbed: manifests and the scripts that their models play."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.peers.modelscripts import DONE, Script, call, reply, save, script

from agentrun.devmodel import load_script
from agentrun.devmodel.server import open_server

Manifest = dict[str, Any]
USAGE = {"input": 100, "output": 10, "cacheRead": 7, "cacheWrite": 3}
PRICING = {"inputPerMTok": "3", "outputPerMTok": "15"}


@dataclass(frozen=True)
class Model:
    """A scripted model that listens, and the log of what it was asked."""

    url: str
    log: Path


@contextmanager
def model(folder: Path, document: Script) -> Iterator[Model]:
    """Play a script in this process until the end of the block."""
    path = save(document, folder / "model.yaml")
    log = folder / "model.jsonl"
    with open_server(load_script(path), log=log) as server:
        yield Model(f"http://127.0.0.1:{server.port}", log)


def manifest(
    model_url: str,
    tools_url: str,
    *,
    name: str = "run",
    ttl: int = 15,
    ops: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    model_retries: int = 5,
    **spec: Any,
) -> Manifest:
    """One agent with a tool server (the shared one, or what ``ops`` says) and files."""
    servers: list[dict[str, Any]] = [
        {"name": "ops", "url": tools_url} if ops is None else {"name": "ops", **ops},
        {"name": "workspace", "workspace": {}},
    ]
    return {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "metadata": {"name": name},
        "spec": {
            "prompt": "Do the work, step by step.",
            "agents": [
                {
                    "name": "clerk",
                    "instructions": "You are careful.",
                    "tools": ["ops.*", "workspace.*"],
                    "maxTurns": 500,
                }
            ],
            "model": {"name": "scripted", "baseURL": model_url, "maxRetries": model_retries},
            "pricing": PRICING,
            "toolServers": servers,
            "lease": {"ttlSeconds": ttl},
            "limits": {"retries": 200, "infraRetries": 200, **(limits or {})},
            **spec,
        },
    }


def note(content: str, *, append: bool = True) -> dict[str, Any]:
    """A call that writes into the workspace."""
    return call("write_file", server="workspace", path="notes.md", content=content, append=append)


def everything(turn_delay: float = 0) -> Script:
    """Several turns with parallel calls, effects, files, an error and slow steps.

    Replies of turns 0, 1 and 4 take long enough for the points inside a model call, the slow calls
    of turn 1 for those inside a tool call.
    """
    slow = call("slow", seconds=0.4, text="slowly")
    return script(
        reply(
            0,
            text="First.",
            tools=[call("charge", amount=100), call("echo", text="parallel"), note("# Notes\n")],
            usage=USAGE,
            delay=0.4,
        ),
        reply(
            1,
            thinking="Slow things next.",
            text="Second.",
            tools=[slow, call("charge", amount=20), call("slow", seconds=0.5, text="slower")],
            usage=USAGE,
            delay=0.4,
        ),
        reply(
            2,
            text="Third.",
            tools=[note("- charged 120\n"), call("fail", message="no such thing")],
            usage=USAGE,
            delay=turn_delay,
        ),
        reply(
            3,
            text="Fourth.",
            tools=[
                call("read_file", server="workspace", path="notes.md"),
                call("charge", amount=3),
            ],
            usage=USAGE,
            delay=turn_delay,
        ),
        reply(4, text=DONE, usage=USAGE, delay=0.4),
    )


NOTES = b"# Notes\n- charged 120\n"
"""What the workspace holds at the end of ``everything``."""


def gated() -> Script:
    """One call that a person has to approve, between two that nobody has to."""
    return script(
        reply(
            0,
            text="May I?",
            tools=[call("charge", amount=100), call("echo", text="meanwhile")],
            usage=USAGE,
        ),
        reply(1, text="Noted.", tools=[note("- charged\n")], usage=USAGE),
        reply(2, text=DONE, usage=USAGE),
    )


GATE = {"tools": ["ops.charge"], "approval": "Always", "reason": "costs money"}


def long(turns: int, delay: float = 0.2) -> Script:
    """Many turns, each with a charge and an echo at once, every fifth with a line in a file."""
    rules = []
    for turn in range(turns - 1):
        tools = [call("charge", amount=turn), call("echo", text=f"turn {turn}")]
        if turn % 5 == 0:
            tools.append(note(f"turn {turn}\n"))
        rules.append(reply(turn, text=f"Turn {turn}.", tools=tools, usage=USAGE, delay=delay))
    return script(*rules, reply(turns - 1, text=DONE, usage=USAGE))


def heavy() -> Script:
    """A result large enough for a blob, replies that make a snapshot due, and then slow turns."""
    random = Random(1)
    rules = [reply(0, text="Big.", tools=[call("big", bytes=400_000)], usage=USAGE)]
    for turn in range(1, 5):
        text = random.randbytes(60_000).hex()
        rules.append(reply(turn, text=text, tools=[call("echo", text="on")], usage=USAGE))
    for turn in range(5, 100):
        tools = [call("echo", text=f"turn {turn}")]
        rules.append(reply(turn, text="Slowly.", tools=tools, usage=USAGE, delay=0.3))
    return script(*rules)


STORM_GATE = {"tools": ["ops.slow"], "approval": "Always"}


def stormy() -> Script:
    """Many turns; every seventh asks a person, every third writes, all of them charge."""
    rules = []
    for turn in range(40):
        tools = [call("charge", amount=turn), call("echo", text=f"turn {turn}")]
        if turn % 7 == 3:
            tools.append(call("slow", seconds=0.2, text="approved"))
        if turn % 3 == 0:
            tools.append(note(f"turn {turn}\n"))
        rules.append(reply(turn, text=f"Turn {turn}.", tools=tools, usage=USAGE, delay=0.2))
    read = call("read_file", server="workspace", path="notes.md")
    rules.append(reply(40, text="And?", tools=[read], usage=USAGE))
    return script(*rules, reply(41, text=DONE, usage=USAGE))
