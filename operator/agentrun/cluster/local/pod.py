"""The supervisor of one local pod: what a kubelet does, for one attempt, in one small process.

``python -m agentrun.cluster.local.pod FOLDER`` starts the workspace server and the runner in one
process group, waits for the runner, ends everything that came from it, and only then writes down
how it ended. It holds a lock on the folder for as long as it lives: whoever finds the lock free and
no record of the end knows that the supervisor was killed. It outlives the program that started it,
as a pod outlives the operator. It imports little, because every attempt waits for it.

Files in the folder: ``pod.json`` (what to run), ``lock``, ``supervisor.json``, ``started.json``,
``delete.json`` (please stop), ``termination.log`` (the runner's), ``end.json``. Environment: the
runner's, passed through, so that no secret is written down here.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentrun.cluster.local.files import read_json, write_json
from agentrun.cluster.local.processes import everything, identify

POD = "pod.json"
LOCK = "lock"
SUPERVISOR = "supervisor.json"
STARTED = "started.json"
DELETE = "delete.json"
END = "end.json"
TERMINATION = "termination.log"
"""What the runner says about its own end, as in a cluster."""

MESSAGE_BYTES = 4096

STOP_SIGNAL = signal.SIGTERM
"""Tells a supervisor that ``delete.json`` is there."""

LOOK_AGAIN = 1.0
"""Seconds after which a request to stop is seen even if its signal was lost."""

SET_CHILD_SUBREAPER = 36
START_ERROR = 128
KILLED = 128 + signal.SIGKILL


class Supervisor:
    """Runs the processes of one pod until the runner has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pod = read_json(folder / POD) or {}
        self.group = 0
        self.runner = 0
        self.workspace = 0
        self.status: int | None = None
        self.stop_by: float | None = None
        self.told = False
        self.terminated = False
        self.wake = -1

    def run(self) -> None:
        """Start, wait, end the group, record. Returns at once if another supervisor is here."""
        try:
            lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        if (self.folder / SUPERVISOR).exists():
            return
        self._listen()
        _adopt_orphans()
        write_json(self.folder / SUPERVISOR, identify(os.getpid()).to_dict())
        if (self.folder / DELETE).exists():
            self._record(KILLED, "Error")
            return
        try:
            self._start()
        except OSError as error:
            self._end_group()
            self._record(START_ERROR, "StartError", str(error))
            return
        self._wait()
        self._end_group()
        code = os.waitstatus_to_exitcode(self.status or 0)
        code = code if code >= 0 else 128 - code
        self._record(code, "Error" if code else "Completed", self._last_words())

    def _listen(self) -> None:
        """Turn signals into a readable pipe."""
        self.wake, write_end = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop)

    def _on_stop(self, *_: Any) -> None:
        self.terminated = True

    def _start(self) -> None:
        self._start_workspace()
        command = self.pod["runner"]
        self.runner = self._spawn(command["argv"], dict(os.environ), command["log"])
        write_json(self.folder / STARTED, identify(self.runner).to_dict())

    def _start_workspace(self) -> None:
        """A server that ended is started again, as a native sidecar is."""
        if command := self.pod.get("workspace"):
            with suppress(FileNotFoundError):
                Path(command["socket"]).unlink()
            self.workspace = self._spawn(command["argv"], command["env"], command["log"])

    def _spawn(self, argv: list[str], env: dict[str, str], log: str) -> int:
        """Start a process in the pod's group; the first one founds it."""
        output = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawnp(
            argv[0],
            argv,
            env,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, output, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setpgroup=self.group,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
        self.group = self.group or pid
        return pid

    def _wait(self) -> None:
        """Until the runner has ended, stopping it when asked to."""
        while True:
            self._reap()
            if self.status is not None:
                return
            self._heed_stop()
            pause = LOOK_AGAIN
            if self.stop_by is not None:
                pause = max(0.0, min(pause, self.stop_by - time.monotonic()))
            select.select([self.wake], [], [], pause)
            with suppress(BlockingIOError):
                os.read(self.wake, 4096)
            if self.pod.get("workspace") and not self.workspace:
                with suppress(OSError):
                    self._start_workspace()

    def _reap(self) -> bool:
        """Collect the children that have ended; False once there are none at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.runner:
                self.status = status
            elif pid == self.workspace:
                self.workspace = 0

    def _heed_stop(self) -> None:
        """SIGTERM, the grace period, SIGKILL. A later request may shorten the period.

        When the folder itself is gone, nobody can see or stop this pod any more: it ends at once.
        """
        request = read_json(self.folder / DELETE)
        if request is None and not (self.folder / POD).exists():
            request = {"grace": 0}
        if request is None and not self.terminated:
            return
        grace = (request or self.pod)["grace"]
        deadline = time.monotonic() + grace
        self.stop_by = deadline if self.stop_by is None else min(self.stop_by, deadline)
        if time.monotonic() >= self.stop_by:
            os.kill(self.runner, signal.SIGKILL)
        elif not self.told:
            self.told = True
            os.kill(self.runner, signal.SIGTERM)

    def _end_group(self) -> None:
        """Kill the group and whoever left it; returns when no descendant is alive.

        Orphans come to this process (see ``_adopt_orphans``), so "no children" means nobody.
        """
        while self._reap():
            if self.group:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.group, signal.SIGKILL)
            for pid in _descendants():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)
        self._remove_socket()

    def _remove_socket(self) -> None:
        """And its folder, where it has one of its own outside the pod's."""
        if command := self.pod.get("workspace"):
            socket = Path(command["socket"])
            with suppress(OSError):
                socket.unlink(missing_ok=True)
                if socket.parent != self.folder:
                    socket.parent.rmdir()

    def _last_words(self) -> str:
        try:
            with (self.folder / TERMINATION).open("rb") as file:
                return file.read(MESSAGE_BYTES).decode(errors="replace")
        except OSError:
            return ""

    def _record(self, code: int, reason: str, message: str = "") -> None:
        end = {"exitCode": code, "reason": reason, "message": message, "at": time.time()}
        with suppress(FileNotFoundError):
            write_json(self.folder / END, end)


def _descendants() -> set[int]:
    """PIDs of all living processes below this one."""
    children: dict[int, list[int]] = {}
    for process in everything():
        if process.alive:
            children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo.extend(below)
    return found


def _adopt_orphans() -> None:
    """Become the parent of grandchildren whose parents end (Linux), to find those who hide."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main(folder: str) -> None:
    """Supervise the pod in ``folder``.

    The current folder stays the one of whoever drives the state folder: commands of tool servers
    may be relative to it, as their author wrote them.
    """
    with suppress(FileNotFoundError):  # withdrawn before it began
        Supervisor(Path(folder)).run()


if __name__ == "__main__":
    main(sys.argv[1])
