"""Who uses the embedded server of a state folder, counted by processes that live.

The count is a file of (pid, start time) pairs under a file lock. Dead processes are dropped
whenever somebody looks, so a killed process never keeps the server up, and a reused pid is not
taken for the process that had it before.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time starts, stops or counts."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def enter(folder: Path) -> None:
    """Count this process in. The caller holds the lock."""
    _write(folder, [*_living(folder), _me()])


def leave(folder: Path) -> int:
    """Count this process out and say how many are left. The caller holds the lock."""
    others = [user for user in _living(folder) if user != _me()]
    _write(folder, others)
    return len(others)


def _me() -> tuple[int, str]:
    return os.getpid(), start_time(os.getpid()) or ""


def _living(folder: Path) -> list[tuple[int, str]]:
    try:
        listed = json.loads((folder / "users.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return []
    users = [(int(pid), str(started)) for pid, started in listed]
    return [user for user in users if user != _me() and start_time(user[0]) == user[1]]


def _write(folder: Path, users: list[tuple[int, str]]) -> None:
    half = folder / "users.json.new"
    half.write_text(json.dumps(users), encoding="utf-8")
    half.replace(folder / "users.json")


def start_time(pid: int) -> str | None:
    """When a process started, as its system tells it; None when it is dead or a zombie."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in {"Z", "X"} else fields[19]
    told = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if len(told) < 2 or told[0].startswith("Z") else told[1].strip()


def command_line(pid: int) -> str:
    """The words a process was started with; empty when it is dead."""
    if Path("/proc/self/cmdline").exists():
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ""
        return raw.replace(b"\0", b" ").decode(errors="replace")
    return subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
