"""A process is found again by its number, its start and its boot; by /proc or by ``ps``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrun.cluster.local import processes
from agentrun.cluster.local.processes import Identity, alive, find, identify, kill_session, send


@pytest.fixture(params=["proc", "ps"], autouse=True)
def source(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "ps":
        if shutil.which("ps") is None:
            pytest.skip("there is no ps")
        monkeypatch.setattr(processes, "BOOT_ID", Path("/nowhere"))
    elif not processes.BOOT_ID.exists():
        pytest.skip("there is no /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_process_is_found_with_its_parent_and_session(child: subprocess.Popen[bytes]) -> None:
    found = find(child.pid)
    assert found is not None
    assert (found.parent, found.session, found.alive) == (os.getpid(), child.pid, True)
    assert child.pid in {process.pid for process in processes.everything()}


def test_one_that_waits_to_be_reaped_is_not_alive(child: subprocess.Popen[bytes]) -> None:
    identity = identify(child.pid)
    assert alive(identity)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not alive(identity)
    assert not send(identity, signal.SIGTERM)


@pytest.mark.parametrize("field", ["started", "boot"])
def test_another_process_with_the_number_is_left_alone(
    child: subprocess.Popen[bytes], field: str
) -> None:
    mine = identify(child.pid).to_dict()
    other = Identity.from_dict({**mine, field: "another"})
    assert not alive(other)
    assert not send(other, signal.SIGKILL)
    assert kill_session(other, "NO_SUCH_MARKER=1")
    assert child.poll() is None


def test_a_signal_reaches_the_very_process(child: subprocess.Popen[bytes]) -> None:
    assert send(identify(child.pid), signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM


def test_a_session_without_its_leader_is_ended() -> None:
    script = "sleep 1000 & echo $!"
    with subprocess.Popen(
        ["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE
    ) as leader:
        assert leader.stdout is not None
        left = int(leader.stdout.readline())
        identity = Identity(leader.pid, find(leader.pid).started, processes.boot())  # type: ignore[union-attr]
        leader.wait()
        assert find(left) is not None
        while not kill_session(identity, "NO_SUCH_MARKER=1"):
            pass
        remaining = find(left)
        assert remaining is None or not remaining.alive
