"""Contents of Secrets: files of mode 0600, one per entry, never in the object store or a message."""

from __future__ import annotations

import base64
import binascii
import re
import shutil
from collections.abc import Mapping
from typing import Any

from agentrun.cluster.local.config_objects import texts
from agentrun.cluster.local.files import private_folder, write_atomic
from agentrun.cluster.local.folder import StateFolder
from agentrun.errors import Rejected

ENTRY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
NOT_NAMES = frozenset({".", ".."})


def entries_of(manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The entries of a Secret manifest: ``data`` in base64, ``stringData`` as it is and over it."""
    try:
        entries = {
            name: base64.b64decode(text, validate=True)
            for name, text in texts(manifest, "data").items()
        }
    except (binascii.Error, ValueError):
        raise Rejected(
            "data: values must be base64; plain text belongs into stringData",
            attempted="apply Secret",
        ) from None
    entries |= {name: text.encode() for name, text in texts(manifest, "stringData").items()}
    for name in entries:
        if not valid_entry(name):
            raise Rejected(
                "data: names of entries are letters, digits, dashes, dots and underscores",
                attempted="apply Secret",
            )
    return entries


def valid_entry(name: str) -> bool:
    """Whether ``name`` can be an entry; it becomes a file name."""
    return ENTRY.fullmatch(name) is not None and name not in NOT_NAMES


class SecretFiles:
    """The contents of all Secrets of a state folder, by the Secret's UID."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    def write(self, uid: str, entries: Mapping[str, bytes]) -> None:
        """Set exactly these entries. Written before the object exists, so that it is never empty."""
        home = private_folder(self._folder.secret(uid))
        for name, content in entries.items():
            write_atomic(home / name, content)
        for path in home.iterdir():
            if path.name not in entries:
                path.unlink(missing_ok=True)

    def read(self, uid: str, entry: str) -> bytes | None:
        """One entry, or None."""
        if not valid_entry(entry):
            return None
        try:
            return (self._folder.secret(uid) / entry).read_bytes()
        except FileNotFoundError:
            return None

    def mount(self, uid: str, pod_uid: str) -> None:
        """Copy into a pod's folder, as a volume: the pod keeps it when the Secret is deleted."""
        target = private_folder(self._folder.mounted_secret(pod_uid))
        for path in self._folder.secret(uid).iterdir():
            write_atomic(target / path.name, path.read_bytes())

    def remove(self, uid: str) -> None:
        """Forget the contents."""
        shutil.rmtree(self._folder.secret(uid), ignore_errors=True)
