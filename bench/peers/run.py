"""Run the peers' scripts with an interpreter that has their libraries; say which it has not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from agentrun.run.records import AssistantMessage, ToolResult
from bench.postgres import Ground
from bench.sample_run import Played, of_turns
from bench.stats import Json

SCRIPTS = {"langgraph": "bench.peers.langgraph_full", "dbos": "bench.peers.dbos_steps"}
_ROOT = Path(__file__).parents[2]
_SECONDS = 120


def measure(
    ground: Ground,
    played: Sequence[Played],
    lengths: Sequence[int],
    window: int,
    python: str | None,
) -> Json:
    """By peer and length; a text in place of numbers where nothing was measured."""
    found: Json = {}
    for name, script in SCRIPTS.items():
        answers: Json = {}
        for turns in lengths:
            answer = _peer(ground, of_turns(played, 1, turns), window, script, python)
            answers[str(turns)] = answer
            if isinstance(answer, str):
                break
        found[name] = answers
    return found


def _peer(
    ground: Ground, played: Sequence[Played], window: int, script: str, python: str | None
) -> Json | str:
    task = {
        "dsn": ground.owner,
        "turns": _turns(played),
        "window": window,
        "body": played[-2].commit.body.hex(),
    }
    try:
        done = subprocess.run(
            [python or sys.executable, "-m", script],
            cwd=_ROOT,
            input=json.dumps(task),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"not measured: {type(error).__name__}"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"not measured: {last[:200]}"
    answer: Json = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def _turns(played: Sequence[Played]) -> list[tuple[str, str]]:
    """What was said and answered, turn by turn."""
    said: dict[int, str] = {}
    answered: dict[int, str] = {}
    for each in played:
        for record in each.boundary.records:
            if isinstance(record, AssistantMessage):
                said[each.turn] = record.content[0]["text"]
            elif isinstance(record, ToolResult):
                answered[each.turn] = record.content[0]["text"]
    return [(said[turn], answered[turn]) for turn in sorted(answered)]
