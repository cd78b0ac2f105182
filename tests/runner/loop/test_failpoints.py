"""Named points: parsed, counted, fired once per run folder, free when unset."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.errors import UsageError
from agentrun.runner import failpoints
from agentrun.runner.failpoints import Armed, Point, parse


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm({})


@pytest.mark.parametrize(
    ("words", "point"),
    [
        ("after-claim", Point("after-claim", 1, "kill")),
        ("after-claim:3", Point("after-claim", 3, "kill")),
        ("after-claim:stop", Point("after-claim", 1, "stop")),
        ("after-claim:2:hang", Point("after-claim", 2, "hang")),
    ],
)
def test_a_point_is_name_count_and_action(words: str, point: Point) -> None:
    assert parse(words) == {"after-claim": point}


def test_several_failpoints_can_be_armed_at_once() -> None:
    assert list(parse("after-claim:stop, in-tool:2")) == ["after-claim", "in-tool"]


@pytest.mark.parametrize("words", ["nowhere", "in-tool:explode"])
def test_what_is_no_point_is_refused(words: str) -> None:
    with pytest.raises(UsageError):
        parse(words)


def test_a_point_fires_at_its_count_and_once_per_folder(tmp_path: Path) -> None:
    armed = Armed(parse("in-tool:2"), tmp_path)
    assert [armed.due("in-tool") is not None for _ in range(4)] == [False, True, False, False]

    successor = Armed(parse("in-tool:2"), tmp_path)
    assert [successor.due("in-tool") is not None for _ in range(4)] == [False] * 4

    (marker,) = tmp_path.iterdir()
    assert json.loads(marker.read_text())["point"] == "in-tool"


def test_unset_nothing_is_armed() -> None:
    failpoints.arm({})

    for name in failpoints.NAMES:
        failpoints.reach(name)


def test_kill_stop_and_hang_do_what_they_say(tmp_path: Path) -> None:
    code = (
        "import os; from agentrun.runner import failpoints as f; f.arm(os.environ);"
        "f.reach('after-claim'); print('went on', flush=True)"
    )
    for action, ended in (("kill", -signal.SIGKILL), ("stop", 0)):
        env = {
            **os.environ,
            "AGENTRUN_FAILPOINT": f"after-claim:{action}",
            "AGENTRUN_FAILPOINT_DIR": str(tmp_path / action),
        }
        with subprocess.Popen([sys.executable, "-c", code], env=env) as process:
            if action == "stop":
                _, status = os.waitpid(process.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status)
                process.send_signal(signal.SIGCONT)
            assert process.wait() == ended


def test_every_point_is_reached_by_a_run_with_parallel_calls(tmp_path: Path) -> None:
    """Armed with a count that never comes, the points are counted and do nothing."""

    async def scene() -> None:
        made = Stage(make_spec(), lambda turn: (asks("look", "fix", turn=0), text("done"))[turn])
        made.model.seconds = made.tools.seconds["look"] = 1.0
        words = ",".join(f"{name}:1000" for name in sorted(failpoints.NAMES))
        failpoints.arm({"AGENTRUN_FAILPOINT": words})
        armed = failpoints._armed
        assert armed is not None
        await made.attempt()

        assert set(armed._reached) == failpoints.NAMES
        assert armed._reached["between-results"] == 1
        assert armed._reached["after-effect"] == 2

    run(scene())


def test_points_inside_calls_do_not_fire_after_the_call() -> None:
    async def scene() -> None:
        failpoints.arm({"AGENTRUN_FAILPOINT": "in-tool:1000"})
        armed = failpoints._armed
        assert armed is not None
        with failpoints.inside("in-tool"):
            pass
        await asyncio.sleep(10)

        assert not armed._reached

    run(scene())
