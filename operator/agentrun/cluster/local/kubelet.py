"""Starts, watches and stops the processes of local pods through their folders.

Everything is level-triggered and may be done by several programs at once: a folder has one
supervisor, because the supervisor itself takes the lock (see ``pod.py``), and starting or stopping
what is already started or stopped changes nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrun.api.names import RUNNER_CONTAINER
from agentrun.cluster import environment as names
from agentrun.cluster.local import pod as supervisor
from agentrun.cluster.local.files import private_folder, read_json, write_json
from agentrun.cluster.local.folder import StateFolder
from agentrun.cluster.local.pod_spec import inherited
from agentrun.cluster.local.processes import Identity, alive, kill_session, send
from agentrun.cluster.local.secrets import SecretFiles
from agentrun.cluster.local.store import stamp
from agentrun.errors import ClusterUnavailable

SUPERVISOR = (sys.executable, "-P", "-m", "agentrun.cluster.local.pod")
CONFIG_ERROR = "CreateContainerConfigError"
KILL_SECONDS = 5.0
KILL_PAUSE = 0.005


@dataclass(frozen=True, slots=True)
class Missing(Exception):
    """Something that the pod refers to is not there; it waits, as a kubelet's pod does."""

    what: str


Lookup = Callable[[str, str, str], bytes | None]
"""(namespace, name, key) → content of a Secret's or ConfigMap's entry."""


class Kubelet:
    """The processes of all pods of one state folder."""

    def __init__(
        self, folder: StateFolder, secrets: SecretFiles, ambient: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._secrets = secrets
        self._ambient = ambient
        self._children: set[int] = set()

    def prepare(self, uid: str, file: dict[str, Any]) -> None:
        """Make the pod's folder. Nothing runs yet."""
        home = private_folder(self._folder.pod(uid))
        write_json(home / supervisor.POD, file)

    def file(self, uid: str) -> dict[str, Any] | None:
        """How to start the pod; None once it was buried."""
        return read_json(self._folder.pod(uid) / supervisor.POD)

    def start(
        self, uid: str, secret_uid: str | None, secret: Lookup, config: Lookup
    ) -> tuple[str, str] | None:
        """Start the supervisor unless one was started; or say why the pod has to wait."""
        home = self._folder.pod(uid)
        file = self.file(uid)
        if file is None or (home / supervisor.SUPERVISOR).exists():
            return None
        try:
            env = self._environment(home, file, secret, config)
        except Missing as missing:
            return CONFIG_ERROR, missing.what
        if secret_uid is None:
            return CONFIG_ERROR, f'secret "{file["secretName"]}" not found'
        self._secrets.mount(secret_uid, uid)
        self._make_folders(file)
        self._spawn(home, file, env)
        return None

    def observe(self, uid: str) -> dict[str, Any] | None:
        """Status of the pod as its folder tells it; None when it is gone without an end.

        A dead supervisor's processes are killed before it counts as gone. The lock is looked at
        before the record of the end, so that an end written in between is not missed.
        """
        self.reap()
        home = self._folder.pod(uid)
        if not (home / supervisor.POD).exists():
            return None
        left = self._supervisor_left(home)
        if end := read_json(home / supervisor.END):
            return _ended(end)
        started = read_json(home / supervisor.STARTED)
        if left:
            identity = read_json(home / supervisor.SUPERVISOR)
            if identity and not kill_session(
                Identity.from_dict(identity), f"{names.POD_UID}={uid}"
            ):
                return _running() if started else _waiting("ContainerCreating", "")
            return None
        return _running() if started else _waiting("ContainerCreating", "")

    def stop(self, uid: str, grace: int) -> None:
        """Ask the supervisor to stop: SIGTERM, ``grace`` seconds, SIGKILL. 0 kills at once.

        Asking again for the same does nothing: a lost signal is made up for by the supervisor,
        which looks for the request from time to time.
        """
        home = self._folder.pod(uid)
        asked = read_json(home / supervisor.DELETE)
        if asked is not None and asked["grace"] <= grace:
            return
        with suppress(FileNotFoundError):
            write_json(home / supervisor.DELETE, {"grace": grace})
        if identity := read_json(home / supervisor.SUPERVISOR):
            send(Identity.from_dict(identity), supervisor.STOP_SIGNAL)

    def withdraw(self, uid: str) -> bool:
        """Remove a pod that was never started, under its lock, so that nobody starts it now."""
        home = self._folder.pod(uid)
        try:
            lock = os.open(home / supervisor.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            if (home / supervisor.SUPERVISOR).exists():
                return False
            self.bury(uid)
            return True
        finally:
            os.close(lock)

    def wait_gone(self, uid: str) -> bool:
        """After ``stop`` with grace 0: wait until nothing of the pod runs, within reason."""
        deadline = time.monotonic() + KILL_SECONDS
        while time.monotonic() < deadline:
            status = self.observe(uid)
            if status is None or status["phase"] in ("Succeeded", "Failed"):
                return True
            time.sleep(KILL_PAUSE)
        return False

    def signal_runner(self, uid: str, number: int) -> bool:
        """Signal the runner itself; False if it is not running."""
        identity = read_json(self._folder.pod(uid) / supervisor.STARTED)
        return identity is not None and send(Identity.from_dict(identity), number)

    def runner_alive(self, uid: str) -> bool:
        """Whether the runner's process runs."""
        identity = read_json(self._folder.pod(uid) / supervisor.STARTED)
        return identity is not None and alive(Identity.from_dict(identity))

    def bury(self, uid: str) -> None:
        """Remove the folder of a pod that has ended. The log stays."""
        home = self._folder.pod(uid)
        file = read_json(home / supervisor.POD) or {}
        if workspace := file.get("workspace"):
            folder = Path(workspace["socket"]).parent
            if folder != home:
                shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)

    def reap(self) -> None:
        """Collect supervisors that this very process started and that have ended."""
        for pid in list(self._children):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._children.discard(pid)

    def _supervisor_left(self, home: Path) -> bool:
        """Whether there was a supervisor and it is dead: nobody holds the lock."""
        if not (home / supervisor.SUPERVISOR).exists():
            return False
        try:
            lock = os.open(home / supervisor.LOCK, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(lock)

    def _environment(
        self, home: Path, file: dict[str, Any], secret: Lookup, config: Lookup
    ) -> dict[str, str]:
        """The runner's environment with its secret values, which are in no file of the pod.

        From the least to the most binding: the user's shell, ``spec.pod.env``, ours.
        """
        env = inherited(self._ambient, names.API_KEY in file["secretEnv"]) | file["env"]
        for name, ref in file["configEnv"].items():
            env[name] = _content(config, file["namespace"], ref, "configmap").decode()
        for name, ref in file["secretEnv"].items():
            env[name] = _content(secret, file["namespace"], ref, "secret").decode()
        for name, ref in file["configFiles"].items():
            path = home / f"{name.lower()}.pem"
            path.write_bytes(_content(config, file["namespace"], ref, "configmap"))
            env[name] = str(path)
        return {**env, **file["ownEnv"]}

    def _make_folders(self, file: dict[str, Any]) -> None:
        if workspace := file["workspace"]:
            private_folder(Path(workspace["root"]))
            socket = Path(workspace["socket"])
            if not socket.parent.exists():
                socket.parent.mkdir(mode=0o700)

    def _spawn(self, home: Path, file: dict[str, Any], env: dict[str, str]) -> None:
        """A session of its own and no pipe to us: the pod outlives this program."""
        output = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        argv = [*SUPERVISOR, str(home)]
        try:
            pid = os.posix_spawn(
                argv[0],
                argv,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, file["runner"]["log"], output, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )
        except OSError as error:
            raise ClusterUnavailable(
                str(error), attempted="start the pod's supervisor", on=home.name
            ) from error
        self._children.add(pid)


def _content(lookup: Lookup, namespace: str, ref: tuple[str, str], kind: str) -> bytes:
    name, key = ref
    content = lookup(namespace, name, key)
    if content is None:
        raise Missing(f'{kind} "{name}" has no entry "{key}", or there is no such {kind}')
    return content


def _running() -> dict[str, Any]:
    return _status("Running", {"running": {}})


def _waiting(reason: str, message: str) -> dict[str, Any]:
    return _status("Pending", {"waiting": {"reason": reason, "message": message}})


def waiting_status(why: tuple[str, str]) -> dict[str, Any]:
    """Status of a pod that cannot start."""
    return _waiting(*why)


def _ended(end: dict[str, Any]) -> dict[str, Any]:
    code = end["exitCode"]
    at = stamp(datetime.fromtimestamp(end["at"], UTC))
    terminated = {"exitCode": code, "reason": end["reason"], "message": end["message"]}
    phase = "Succeeded" if code == 0 else "Failed"
    return _status(phase, {"terminated": {**terminated, "finishedAt": at}})


def _status(phase: str, state: dict[str, Any]) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": [{"name": RUNNER_CONTAINER, "state": state}]}
