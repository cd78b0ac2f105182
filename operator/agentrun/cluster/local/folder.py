"""Where things are in the state folder of local mode."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from agentrun.cluster.local.files import private_folder

SOCKET = "workspace.sock"
SOCKET_PATH_MAX = 100
"""Bytes. The kernel's limit is 107 on Linux and 103 on macOS."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The layout. Everything is for its owner alone, because prompts and keys are in it."""

    root: Path

    @classmethod
    def open(cls, root: Path) -> StateFolder:
        """Make what is missing; the path becomes absolute, because pods run elsewhere.

        The mode of a folder that exists is left alone: a database that runs as another user may
        have to pass through it. What holds content is private by itself.
        """
        folder = cls(root.absolute())
        if not folder.root.exists():
            private_folder(folder.root)
        for part in ("pods", "secrets", "logs", "volumes"):
            private_folder(folder.root / part)
        return folder

    @property
    def objects(self) -> Path:
        """The object store."""
        return self.root / "objects.db"

    def pod(self, uid: str) -> Path:
        """Folder of one pod."""
        return self.root / "pods" / uid

    def secret(self, uid: str) -> Path:
        """Folder with the entries of one Secret, one file each."""
        return self.root / "secrets" / uid

    def mounted_secret(self, pod_uid: str) -> Path:
        """The attempt's Secret as its pod sees it; it stays when the Secret is deleted."""
        return self.pod(pod_uid) / "secret"

    def log(self, pod: str) -> Path:
        """What the runner of a pod wrote; it outlives the pod."""
        return self.root / "logs" / f"{pod}.log"

    def logged_attempts(self, stem: str) -> list[int]:
        """Numbers of the attempts whose pods (``stem`` and a number) have left a log."""
        endings = (p.name[len(stem) :] for p in (self.root / "logs").glob(f"{stem}*.log"))
        numbers = (ending.removesuffix(".log") for ending in endings)
        return [int(number) for number in numbers if number.isdigit()]

    def workspace_log(self, pod: str) -> Path:
        """What the workspace server of a pod wrote."""
        return self.root / "logs" / f"{pod}.workspace.log"

    def workspace(self, pod_uid: str) -> Path:
        """The files of a workspace that starts empty with every attempt."""
        return self.pod(pod_uid) / "workspace"

    def volume(self, run_uid: str) -> Path:
        """The files of a workspace that stays between attempts."""
        return self.root / "volumes" / run_uid

    def socket(self, pod_uid: str) -> Path:
        """A path for the workspace server's socket: in the pod's folder, or in a private one with a
        short name where that path would be too long for a socket."""
        path = self.pod(pod_uid) / SOCKET
        if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
            return path
        name = hashlib.sha256(f"{self.root}\n{pod_uid}".encode()).hexdigest()[:20]
        usual = Path(tempfile.gettempdir()) / f"agentrun-{name}" / SOCKET
        if len(os.fsencode(usual)) <= SOCKET_PATH_MAX:
            return usual
        return Path("/tmp") / f"agentrun-{name}" / SOCKET  # noqa: S108 - made exclusively, mode 0700
