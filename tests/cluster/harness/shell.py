"""Child processes, with their complaints in the error that the test shows."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "kind"


class CommandFailed(AssertionError):
    """A command that had to succeed did not; an assertion, so that pytest shows its text alone."""

    def __init__(self, command: Sequence[str], code: int | str, output: str) -> None:
        super().__init__(f"{' '.join(command)} → {code}\n{output.strip()}")
        self.output = output


def run(
    *command: str,
    stdin: str | None = None,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
) -> str:
    """Standard output of a command that must succeed within the timeout."""
    done = attempt(*command, stdin=stdin, timeout=timeout, env=env)
    if done.returncode != 0:
        raise CommandFailed(command, done.returncode, done.stderr or done.stdout)
    return done.stdout


def attempt(
    *command: str,
    stdin: str | None = None,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """A command whose failure is an answer, too."""
    try:
        return subprocess.run(
            command,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env={**os.environ, **(env or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise CommandFailed(command, f"still running after {timeout} s", str(late.stderr)) from late


def script(name: str, *arguments: str, timeout: float) -> str:
    """The last line that a script of tests/cluster/kind prints; its progress goes to our stderr."""
    command = [str(SCRIPTS / name), *arguments]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        raise CommandFailed(command, done.returncode, "see its messages on stderr")
    return done.stdout.strip().rpartition("\n")[2]
