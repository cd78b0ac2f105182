"""Runs to be disturbed, and the scripts that the one scripted model of the cluster plays for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.peers.modelscripts import DONE, Rule, Script, call, reply, script

Manifest = dict[str, Any]
USAGE: Final = {"input": 100, "output": 10}
PRICING: Final = {"inputPerMTok": "3", "outputPerMTok": "15"}
GATE: Final = {"tools": ["ops.charge"], "approval": "Always", "reason": "costs money"}
KEY: Final = {"name": "model", "key": "api-key"}


def note(content: str) -> dict[str, Any]:
    """A call that writes a file into the workspace."""
    return call("write_file", server="workspace", path="notes.md", content=content)


def _acts(*rounds: Sequence[dict[str, Any]]) -> list[Rule]:
    """One model call for each round of tool calls, and one that says that all is done."""
    rules = [
        reply(turn, text=f"Turn {turn}.", tools=list(calls), usage=USAGE)
        for turn, calls in enumerate(rounds)
    ]
    return [*rules, reply(len(rounds), text=DONE, usage=USAGE)]


CHARGE: Final = call("charge", amount=100)

SCENES: Final[Mapping[str, list[Rule]]] = {
    # an effect, files, an end
    "plain": _acts([CHARGE, note("- charged\n")], [call("echo", text="said")]),
    # an effect is committed, then a call that ends when the test wants it to, then another effect
    "held": _acts([CHARGE], [call("gate")], [call("charge", amount=7)]),
    # a call that a person has to approve
    "asks": _acts([CHARGE]),
    # a call whose answer never comes
    "hangs": _acts([CHARGE], [call("hang")]),
    # an answer that a small pod cannot hold
    "heavy": _acts([CHARGE], [call("big", bytes=24 << 20)]),
    # a tool server that dies in the middle of a call, and is started again
    "mortal": _acts([call("echo", text="alive")], [call("die")]),
}


def model_script() -> Script:
    """All scenes in one script; a run says which one is its own in its agent's instructions."""
    return script(
        *(
            {**rule, "match": {**rule["match"], "system": f"^Scene {name}$"}}
            for name, rules in SCENES.items()
            for rule in rules
        )
    )


def manifest(
    name: str,
    scene: str,
    *,
    model: str,
    servers: Sequence[Mapping[str, Any]],
    limits: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """An AgentRun with one agent that plays a scene with these tool servers."""
    return {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "metadata": {"name": name},
        "spec": {
            "prompt": "Do the work, step by step.",
            "agents": [{"name": "clerk", "instructions": f"Scene {scene}", "tools": ["*.*"]}],
            "model": {"name": "scripted", "baseURL": model, "apiKeySecretRef": KEY},
            "pricing": PRICING,
            "toolServers": list(servers),
            "limits": {"retries": 3, **(limits or {})},
            "pod": {"terminationGracePeriodSeconds": 10},
            **spec,
        },
    }
