"""Names, addresses and digests on which the runner and the workspace server must agree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

INTERNAL_PREFIX: Final = "agentrun_"
"""Tools with this prefix are for the runner; it never offers them to a model."""

RESTORE_BEGIN: Final = "agentrun_restore_begin"
RESTORE_FILE: Final = "agentrun_restore_file"
RESTORE_DONE: Final = "agentrun_restore_done"
STATE: Final = "agentrun_state"

META_CALL_KEY: Final = "agentrun.dev/call-key"
META_NOT_AFTER: Final = "agentrun.dev/notAfter"
META_CHANGED: Final = "agentrun.dev/changed"
META_NOT_SENT: Final = "agentrun.dev/notSent"
META_GENERATION: Final = "agentrun.dev/generation"
META_SIZE: Final = "agentrun.dev/size"
META_MODE: Final = "agentrun.dev/mode"

_SCHEME: Final = "workspace:///"


@dataclass(frozen=True)
class FileEntry:
    """A regular file as the record knows it. ``mode`` holds the permission bits only."""

    path: str
    sha256: str
    size: int
    mode: int

    def as_meta(self) -> dict[str, Any]:
        return {"path": self.path, "sha256": self.sha256, "size": self.size, "mode": self.mode}


@dataclass(frozen=True)
class Deleted:
    """A file that is gone."""

    path: str

    def as_meta(self) -> dict[str, Any]:
        return {"path": self.path, "deleted": True}


def tree_digest(files: Iterable[FileEntry]) -> str:
    """One hash for a whole tree: equal digests mean equal paths, contents and modes."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda entry: entry.path.encode()):
        digest.update(f"{file.sha256} {file.mode:04o} {file.size} {file.path}\n".encode())
    return digest.hexdigest()


def resource_uri(path: str, *, offset: int = 0, limit: int | None = None) -> str:
    """The address of a file's content; ``offset`` and ``limit`` (bytes) fetch a part of it."""
    part = f"?offset={offset}&limit={limit}" if limit is not None else ""
    return f"{_SCHEME}{quote(path)}{part}"


@dataclass(frozen=True)
class Part:
    """What a resource URI asks for."""

    path: str
    offset: int = 0
    limit: int | None = None


def parse_uri(uri: str) -> Part | None:
    """The inverse of ``resource_uri``; None for anything else."""
    if not uri.startswith(_SCHEME):
        return None
    split = urlsplit(uri)
    try:
        path = unquote_to_bytes(split.path[1:]).decode()
        query = dict(pair.split("=", 1) for pair in split.query.split("&") if pair)
        numbers = {key: int(value) for key, value in query.items()}
        part = Part(path, **numbers)
    except (ValueError, TypeError):
        return None
    return part if part.offset >= 0 and (part.limit is None or part.limit >= 0) else None
