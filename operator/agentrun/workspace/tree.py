"""The files of the workspace: whole-file operations that happen fully or leave nothing behind."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentrun.workspace import beneath
from agentrun.workspace.hashes import Hashes
from agentrun.workspace.outcome import Refused
from agentrun.workspace.paths import MAX_DEPTH, STAGING, Parts, join, plain, show
from agentrun.workspace.protocol import FileEntry
from agentrun.workspace.usage import Usage

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Found:
    """A regular file met on a walk."""

    parts: Parts
    status: os.stat_result

    @property
    def path(self) -> str:
        return join(self.parts)


class Tree:
    """One folder, held open; ``limit`` bounds the bytes of all files together.

    A file is written beside the tree and moved into place: it is never seen half-written, and a
    write that fails or would exceed the limit has changed nothing. ``durable`` makes changes
    survive the loss of the node, for a folder that outlives the pod.
    """

    def __init__(self, root: Path, limit: int, *, durable: bool = False) -> None:
        self.limit = limit
        self._durable = durable
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._hashes = Hashes()
        self._usage = Usage(limit, lambda: (found.status.st_size for found in self.walk()))
        self._remove(STAGING)

    def read(self, parts: Parts, offset: int = 0, most: int | None = None) -> bytes:
        """The bytes of a file from ``offset`` on, all of them or at most ``most``."""
        with beneath.regular(self._root, parts) as (opened, found):
            left = max(0, found.st_size - offset)
            wanted = left if most is None else min(most, left)
            if wanted > self.limit:
                raise Refused(f"{show(join(parts))}: too large to read ({found.st_size} bytes)")
            with os.fdopen(os.dup(opened), "rb") as file:
                file.seek(offset)
                return file.read(wanted)

    def status(self, parts: Parts) -> os.stat_result | None:
        """What is there, links not followed; None if nothing is."""
        return beneath.lookup(self._root, parts)

    def write(self, parts: Parts, data: bytes) -> FileEntry:
        """Make ``data`` the content of a file. An existing file keeps its permissions."""
        before = self.status(parts)
        if before is not None:
            beneath.require_regular(before, parts)
        mode = 0o644 if before is None else before.st_mode & 0o777
        growth = len(data) - (0 if before is None else before.st_size)
        self._usage.require(growth, int(before is None))
        draft = secrets.token_hex(8)
        try:
            self._stage(draft, data, mode)
            self._place(draft, parts)
        except BaseException:
            with suppress(OSError), beneath.folder(self._root, (STAGING,)) as staging:
                os.unlink(draft, dir_fd=staging)
            beneath.prune(self._root, parts[:-1])
            raise
        self._usage.changed(growth, int(before is None))
        return FileEntry(join(parts), hashlib.sha256(data).hexdigest(), len(data), mode)

    def delete(self, parts: Parts) -> None:
        """Remove a regular file, and the folders that are empty without it."""
        with beneath.folder(self._root, parts[:-1]) as parent, beneath.explained(parts):
            found = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
            beneath.require_regular(found, parts)
            os.unlink(parts[-1], dir_fd=parent)
            self._sync(parent)
        self._usage.changed(-found.st_size, -1)
        beneath.prune(self._root, parts[:-1])

    def patch(self, parts: Parts, offset: int, data: bytes) -> None:
        """Write a piece of a file that is being restored and end the file after it."""
        before = self.status(parts)
        size = 0 if before is None else before.st_size
        if offset > size:
            raise Refused(f"{show(join(parts))}: offset {offset} is beyond its {size} bytes")
        growth = offset + len(data) - size
        self._usage.require(growth, int(before is None))
        with beneath.folder(self._root, parts[:-1], create=True) as parent:
            with beneath.explained(parts):
                opened = os.open(parts[-1], _CREATE, 0o600, dir_fd=parent)
            with os.fdopen(opened, "wb") as file:
                beneath.require_regular(os.fstat(opened), parts)
                file.seek(offset)
                file.write(data)
                file.truncate()
        self._usage.changed(growth, int(before is None))

    def chmod(self, parts: Parts, mode: int) -> None:
        with beneath.regular(self._root, parts) as (opened, _):
            os.fchmod(opened, mode & 0o777)

    def wipe(self) -> None:
        """Remove everything, links and devices included."""
        with os.scandir(self._root) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            self._remove(name)
        self._usage.unknown()

    def walk(self, below: Parts = ()) -> list[Found]:
        """All regular files with plain names under a folder, in the order of their paths."""
        with beneath.folder(self._root, below) as top:
            return sorted(_visit(top, below), key=lambda found: found.path.encode())

    def entries(self) -> list[FileEntry]:
        """Every file with its hash."""
        entries = []
        for found in self.walk():
            with beneath.regular(self._root, found.parts) as (opened, status):
                content = self._hashes.of(found.path, opened, status)
                mode = status.st_mode & 0o777
                entries.append(FileEntry(found.path, content, status.st_size, mode))
        self._hashes.keep({entry.path for entry in entries})
        return entries

    def _stage(self, draft: str, data: bytes, mode: int) -> None:
        with beneath.folder(self._root, (STAGING,), create=True) as staging:
            opened = os.open(draft, _CREATE | os.O_EXCL, 0o600, dir_fd=staging)
            with os.fdopen(opened, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(opened, mode)
                self._sync(opened)

    def _place(self, draft: str, parts: Parts) -> None:
        with (
            beneath.folder(self._root, (STAGING,)) as staging,
            beneath.folder(self._root, parts[:-1], create=True) as parent,
            beneath.explained(parts),
        ):
            os.rename(draft, parts[-1], src_dir_fd=staging, dst_dir_fd=parent)
            self._sync(parent)

    def _sync(self, opened: int) -> None:
        if self._durable:
            os.fsync(opened)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=self._root, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(name, dir_fd=self._root)
            else:
                os.unlink(name, dir_fd=self._root)


def _visit(opened: int, parts: Parts) -> Iterator[Found]:
    if len(parts) > MAX_DEPTH:
        return
    for name in os.listdir(opened):
        inner = (*parts, name)
        if inner == (STAGING,) or not plain(name):
            continue
        with suppress(FileNotFoundError, Refused):
            status = os.stat(name, dir_fd=opened, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield Found(inner, status)
            elif stat.S_ISDIR(status.st_mode):
                with beneath.folder(opened, (name,)) as below:
                    yield from _visit(below, inner)
