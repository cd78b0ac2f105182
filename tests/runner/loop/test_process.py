"""The process around an attempt: environment, exit codes, termination message, secrets."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from agentrun.errors import (
    CheckpointCorrupt,
    CheckpointNewer,
    Fenced,
    InvalidSpec,
    SchemaMismatch,
    StoreRefused,
    StoreRegressed,
    StoreUnavailable,
    UsageError,
)
from agentrun.runner import clock, environ
from agentrun.runner.exits import MESSAGE_MAX, Ending, Exit, ending_of, write_termination
from agentrun.runner.main import run_attempt


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "dsn").write_text("postgresql://runner:hunter22@db/runs\n")
    (tmp_path / "secret").write_text("attempt-secret\n")
    return {
        "AGENTRUN_RUN_UID": "u1",
        "AGENTRUN_FENCE": "3",
        "AGENTRUN_POD_UID": "p1",
        "AGENTRUN_SECRET_DIR": str(tmp_path),
        "AGENTRUN_TERMINATION_LOG": str(tmp_path / "termination"),
    }


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (Fenced("moved"), 79, ""),
        (CheckpointNewer("v9"), 75, "CheckpointNewer"),
        (CheckpointCorrupt("hash"), 78, "CheckpointCorrupt"),
        (StoreRegressed("lost"), 75, "StoreRegressed"),
        (StoreUnavailable("away"), 75, "StoreUnavailable"),
        (SchemaMismatch("old"), 75, "StoreUnavailable"),
        (StoreRefused("never"), 1, "SaveFailed"),
        (InvalidSpec("field"), 78, "InvalidSpec"),
        (UsageError("unset"), 78, "BadConfiguration"),
        (KeyError("bug"), 1, "AgentFailed"),
    ],
)
def test_every_error_is_an_exit_code(error: Exception, code: int, reason: str) -> None:
    ending = ending_of(error)

    assert int(ending.code) == code
    assert ending.reason == reason


def test_a_bug_tells_its_type_and_not_what_it_choked_on() -> None:
    assert ending_of(KeyError("private words")).message == "KeyError"


def test_the_environment_is_read(surroundings: dict[str, str]) -> None:
    settings = environ.read({**surroundings, "AGENTRUN_GRACE_SECONDS": "12"})

    assert settings.fence == 3
    assert settings.dsn == "postgresql://runner:hunter22@db/runs"
    assert settings.secret == "attempt-secret"
    assert settings.grace == 12
    assert "hunter22" not in repr(settings)
    assert "attempt-secret" not in repr(settings)
    assert settings.node is None


def test_the_node_is_known_after_its_pod_is_gone(surroundings: dict[str, str]) -> None:
    """`status.attempts[].node` was empty as soon as the pod was deleted."""
    assert environ.read({**surroundings, "AGENTRUN_NODE": "n1"}).node == "n1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AGENTRUN_RUN_UID", ""),
        ("AGENTRUN_FENCE", "three"),
        ("AGENTRUN_POD_UID", ""),
        ("AGENTRUN_SECRET_DIR", "/nowhere"),
    ],
)
def test_what_is_missing_is_bad_configuration(
    surroundings: dict[str, str], name: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_attempt({**surroundings, name: value}) == Exit.CONFIG

    told = json.loads(Path(surroundings["AGENTRUN_TERMINATION_LOG"]).read_text())
    assert told["reason"] == "BadConfiguration"
    assert "cannot start" in capsys.readouterr().err


def test_a_failpoint_that_is_none_is_bad_configuration(surroundings: dict[str, str]) -> None:
    assert run_attempt({**surroundings, "AGENTRUN_FAILPOINT": "nowhere"}) == Exit.CONFIG


def test_the_module_runs_and_exits_by_code(surroundings: dict[str, str]) -> None:
    path = Path(surroundings["AGENTRUN_TERMINATION_LOG"])
    ours = {name: value for name, value in os.environ.items() if "AGENTRUN" not in name}
    env = {**ours, "AGENTRUN_TERMINATION_LOG": str(path)}

    done = subprocess.run(
        [sys.executable, "-m", "agentrun.runner"], env=env, capture_output=True, check=False
    )

    assert done.returncode == Exit.CONFIG
    assert json.loads(done.stderr.splitlines()[-1])["event"] == "cannot start"
    assert json.loads(path.read_text())["reason"] == "BadConfiguration"


def test_a_termination_message_is_one_bounded_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    write_termination(str(path), Ending(Exit.CONFIG, "CheckpointCorrupt", "x" * 5000))

    told = json.loads(path.read_text())
    assert told["reason"] == "CheckpointCorrupt"
    assert len(told["message"]) == MESSAGE_MAX


def test_nothing_is_written_for_an_ordinary_end_or_where_nothing_can_be(tmp_path: Path) -> None:
    write_termination(str(tmp_path / "log"), Ending(Exit.FENCED))
    write_termination(str(tmp_path / "log"), Ending(Exit.DONE, "ApprovalPending", "one call"))
    write_termination(
        str(tmp_path / "no" / "such" / "folder"), Ending(Exit.RETRY, "StoreRegressed")
    )

    assert list(tmp_path.iterdir()) == []


def test_a_shifted_wall_clock_shifts_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", time.time)
    monkeypatch.setattr(time, "time_ns", time.time_ns)
    before_wall, before = time.time(), clock.boottime()

    clock.shift_wall(3600)

    assert time.time() - before_wall >= 3600
    assert time.time_ns() // 10**9 - int(before_wall) >= 3600
    assert clock.boottime() - before < 3600


SLOW = """
import sys, time
class Slow:
    def find_spec(self, name, *rest):
        if name == "agentrun.runner.adapters":
            print("importing", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
"""
"""A module that takes long to import, as on a busy node."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_claim_is_a_drain_and_not_lost(
    surroundings: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """As the first process of a container it would be ignored, if nobody handled it."""
    (tmp_path / "sitecustomize.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-m", "agentrun.runner"],
        env={**os.environ, **surroundings, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(number)
        assert process.wait(timeout=20) == 143
