"""Ctrl-C stops what was about to start as well, and a folder knows whether anybody drives it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import yaml
from tests.cli.conftest import agentrun
from tests.cli.runs import PLAIN, PLAIN_SCRIPT

from agentrun.cli.driver_lock import driven, driving
from agentrun.cli.local_operator import LocalOperator
from agentrun.cluster.port import Cluster
from agentrun.cluster.values import ContainerEnd, ObjectKey, PodView


def pod(name: str, phase: str, **more: Any) -> PodView:
    given: dict[str, Any] = {
        "owner_uid": "r",
        "run_uid": "r",
        "fence": 1,
        "attempt": 1,
        "installation": "local",
        "node": "here",
        "created_at": None,
        "deleting": False,
        "runner_running": phase == "Running",
        "runner_end": None,
        "waiting": None,
        "evicted": False,
        "disrupted": False,
    }
    return PodView(key=ObjectKey("default", name), uid=name, phase=phase, **{**given, **more})


class Pods:
    """A cluster whose pods are gone as soon as they are deleted."""

    def __init__(self, *pods: PodView) -> None:
        self.left = {pod.uid: pod for pod in pods}

    async def list_pods(self) -> list[PodView]:
        return list(self.left.values())

    async def delete_pod(self, key: ObjectKey, uid: str) -> None:
        del self.left[uid]


async def test_a_runner_that_has_not_started_yet_is_stopped_too() -> None:
    """It would start after the command has ended, and find no model."""
    pods = Pods(
        pod("starting", "Pending"),
        pod("running", "Running"),
        pod("ended", "Failed", runner_end=ContainerEnd(1, "Error")),
        pod("unstartable", "Pending", waiting=("CreateContainerConfigError", "no secret")),
    )
    stop = asyncio.Event()
    operator = LocalOperator(asyncio.create_task(_until(stop)), stop, cast("Cluster", pods))
    await operator.drain()
    assert set(pods.left) == {"ended", "unstartable"}


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


def test_a_folder_is_driven_while_anybody_drives_it(tmp_path: Path) -> None:
    assert not driven(tmp_path)
    with driving(tmp_path):
        with driving(tmp_path):
            assert driven(tmp_path)
        assert driven(tmp_path)
    assert not driven(tmp_path)


TWO_PACES = """
replies:
- match: {turn: 0, contains: slowly}
  delay: 14
  reply: {text: "Slow."}
- reply: {text: "Quick."}
"""


def test_of_two_commands_on_a_folder_the_first_to_end_leaves_the_other_its_model(
    tmp_path: Path,
) -> None:
    script = tmp_path / "model.yaml"
    script.write_text(TWO_PACES)
    for name, prompt in (("slow", "Go slowly."), ("quick", "Go.")):
        manifest = yaml.safe_load(PLAIN)
        manifest["metadata"]["name"], manifest["spec"]["prompt"] = name, prompt
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    place = ("--state", str(tmp_path / "state"))
    playing = (*place, "--model-script", str(script))
    slow = subprocess.Popen(
        [sys.executable, "-m", "agentrun.cli", "run", str(tmp_path / "slow.yaml"), *playing],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not driven(tmp_path / "state"):
        assert slow.poll() is None
        time.sleep(0.05)
    assert agentrun("run", str(tmp_path / "quick.yaml"), *playing).code == 0
    other = tmp_path / "other.yaml"
    other.write_text(PLAIN_SCRIPT)
    refused = agentrun("run", str(tmp_path / "quick.yaml"), *place, "--model-script", str(other))
    assert refused.code == 1
    assert "plays another script" in refused.err
    _, said = slow.communicate(timeout=120)
    assert slow.returncode == 0, said
    assert "ModelUnavailable" not in said
    assert agentrun("result", "slow", *place).out == "Slow.\n"


def test_commands_that_come_at_once_leave_no_scripted_model_behind(tmp_path: Path) -> None:
    """Each of them once started one of its own, and the last to go ended only one."""
    (tmp_path / "run.yaml").write_text(PLAIN)
    (tmp_path / "model.yaml").write_text(PLAIN_SCRIPT)
    state = tmp_path / "state"
    command = (
        *(sys.executable, "-m", "agentrun.cli", "run", str(tmp_path / "run.yaml")),
        *("--state", str(state), "--model-script", str(tmp_path / "model.yaml")),
    )
    together = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for one in together:
        _, said = one.communicate(timeout=120)
        assert one.returncode == 0, said
    until = time.monotonic() + 20
    while left := scripted_models(state):
        assert time.monotonic() < until, left
        time.sleep(0.05)


def scripted_models(state: Path) -> list[str]:
    """Command lines of the models that play for the folder."""
    listed = subprocess.run(
        ["ps", "-eww", "-o", "args="], capture_output=True, text=True, check=True
    )
    return [
        line
        for line in listed.stdout.splitlines()
        if "agentrun.devmodel" in line and str(state) in line
    ]
