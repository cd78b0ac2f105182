"""Which process is which, and ending all that belongs to a pod.

A PID alone names nothing: numbers are used again. A process is its PID, its start time and the boot
it started in. Linux tells through /proc; elsewhere ``ps`` does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC = Path("/proc")
BOOT_ID = PROC / "sys/kernel/random/boot_id"
GONE = frozenset("ZX")
"""States of processes that have ended and only wait to be reaped."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this boot. ``started`` is whatever text the system gives for it."""

    pid: int
    parent: int
    session: int
    state: str
    started: str

    @property
    def alive(self) -> bool:
        """Whether it can still do anything."""
        return self.state[:1] not in GONE


@dataclass(frozen=True, slots=True)
class Identity:
    """What is written down to find a process again, and only that one."""

    pid: int
    started: str
    boot: str

    def to_dict(self) -> dict[str, Any]:
        """For the pod's folder."""
        return {"pid": self.pid, "started": self.started, "boot": self.boot}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Identity:
        """Inverse of ``to_dict``."""
        return cls(int(value["pid"]), str(value["started"]), str(value["boot"]))


def boot() -> str:
    """Identity of this boot; empty where the system does not tell."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def find(pid: int) -> Process | None:
    """The process with this number now."""
    if BOOT_ID.exists():
        return _from_proc(pid)
    return next((process for process in _from_ps("-p", str(pid))), None)


def everything() -> Iterator[Process]:
    """All processes."""
    if not BOOT_ID.exists():
        yield from _from_ps("-A")
        return
    for name in os.listdir(PROC):  # noqa: PTH208 - thousands of names, no need for Path objects
        if name.isdigit() and (process := _from_proc(int(name))) is not None:
            yield process


def identify(pid: int) -> Identity:
    """Write down a process that is known to exist (a child of ours, or we)."""
    process = find(pid)
    return Identity(pid, process.started if process else "", boot())


def alive(identity: Identity) -> bool:
    """Whether this very process still runs."""
    if identity.boot != boot():
        return False
    process = find(identity.pid)
    return process is not None and process.alive and process.started == identity.started


def send(identity: Identity, number: int) -> bool:
    """Signal this very process; False if it has ended.

    With a pidfd, taken before the check, the number cannot change its owner in between.
    """
    descriptor = -1
    with suppress(OSError, AttributeError):
        descriptor = os.pidfd_open(identity.pid)
    try:
        if not alive(identity):
            return False
        with suppress(ProcessLookupError):
            if descriptor >= 0:
                signal.pidfd_send_signal(descriptor, number)
            else:
                os.kill(identity.pid, number)
            return True
        return False
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def kill_session(leader: Identity, marker: str) -> bool:
    """SIGKILL whatever is left of a dead leader's session; True once nothing is left.

    While anything of a session lives, its number is not given to a new process; so if a *new*
    process has the number, the session is over. ``marker`` is an environment entry
    (``NAME=value``) that finds those who left the session.
    """
    if leader.boot != boot():
        return True
    holder = find(leader.pid)
    reused = holder is not None and holder.alive and holder.started != leader.started
    left = [
        process
        for process in everything()
        if process.alive
        and process.pid not in (os.getpid(), leader.pid)
        and ((process.session == leader.pid and not reused) or _carries(process.pid, marker))
    ]
    for process in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
    return not left


def _carries(pid: int, marker: str) -> bool:
    try:
        return marker.encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _from_proc(pid: int) -> Process | None:
    try:
        text = (PROC / str(pid) / "stat").read_text("latin-1")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[3]), fields[0], fields[19])


def _from_ps(*selection: str) -> Iterator[Process]:
    import subprocess

    done = subprocess.run(
        ["ps", *selection, "-o", "pid=,ppid=,stat=,lstart="],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        pid, parent, state, started = line.split(None, 3)
        with suppress(OSError):
            yield Process(int(pid), int(parent), os.getsid(int(pid)), state, started.strip())
