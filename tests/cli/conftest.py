"""One finished run and one that waits for a person, made by the real command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.runs import GATED, GATED_SCRIPT, PLAIN, PLAIN_SCRIPT

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


def agentrun(*arguments: str, cwd: Path = ROOT, timeout: float = 240, **environ: str) -> Ran:
    """The command line as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "agentrun.cli", *arguments],
        cwd=cwd,
        env={**os.environ, "AGENTRUN_BACKOFF_SECONDS": "0.1", **environ},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True)
class Shell:
    """The command line on one state folder."""

    state: Path
    first: Ran

    def __call__(self, *arguments: str) -> Ran:
        return agentrun(*arguments, "--state", str(self.state))


def started(folder: Path, manifest: str, script: str) -> Shell:
    """A state folder after ``agentrun run``."""
    (folder / "run.yaml").write_text(manifest)
    (folder / "model.yaml").write_text(script)
    state = folder / "state"
    first = agentrun(
        *("run", str(folder / "run.yaml"), "--model-script", str(folder / "model.yaml")),
        *("--state", str(state)),
    )
    return Shell(state, first)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A run that succeeded."""
    shell = started(tmp_path_factory.mktemp("finished"), PLAIN, PLAIN_SCRIPT)
    assert shell.first.code == 0, shell.first.err
    return shell


@pytest.fixture
def waiting(tmp_path: Path) -> tuple[Shell, Callable[[], Ran]]:
    """A run that waits for an approval, and how to go on with it."""
    shell = started(tmp_path, GATED, GATED_SCRIPT)

    def go_on() -> Ran:
        return shell(
            *("run", str(tmp_path / "run.yaml"), "--model-script", str(tmp_path / "model.yaml"))
        )

    return shell, go_on
