"""Opening things inside the folder and nowhere else.

Every component is opened relative to the one before it and never through a symbolic link, so that
neither ``..``, nor a link, nor one put in place between a check and its use leads outside. The
kernel could do this in one call (openat2 with RESOLVE_BENEATH); Python does not offer it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from agentrun.workspace.outcome import Refused
from agentrun.workspace.paths import Parts, join, show

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def folder(root: int, parts: Parts, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder ``parts`` below ``root``, with missing ones made if ``create``."""
    current = os.open(".", _FOLDER, dir_fd=root)
    try:
        for depth, name in enumerate(parts):
            with explained(parts[: depth + 1]):
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=current)
                inner = os.open(name, _FOLDER, dir_fd=current)
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def lookup(root: int, parts: Parts) -> os.stat_result | None:
    """What is there, links not followed; None if nothing is."""
    try:
        with folder(root, parts[:-1]) as parent:
            return os.stat(parts[-1] if parts else ".", dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotThere):
        return None


@contextmanager
def regular(root: int, parts: Parts) -> Iterator[tuple[int, os.stat_result]]:
    """A descriptor of a regular file, for reading.

    Looked at before it is opened, since opening alone can act on a device, and again after, since
    it may have been replaced in between.
    """
    with folder(root, parts[:-1]) as parent, explained(parts):
        require_regular(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False), parts)
        opened = os.open(parts[-1], _FILE, dir_fd=parent)
    try:
        found = os.fstat(opened)
        require_regular(found, parts)
        yield opened, found
    finally:
        os.close(opened)


def require_regular(found: os.stat_result, parts: Parts) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{show(join(parts))}: this is {_kind(found.st_mode)}, not a regular file")


def prune(root: int, parts: Parts) -> None:
    """Remove the folder ``parts`` and those above it, as far as they are empty.

    A folder exists only by its files: so a restored tree, which is made from files, lists the same.
    """
    for depth in range(len(parts), 0, -1):
        try:
            with folder(root, parts[: depth - 1]) as parent:
                os.rmdir(parts[depth - 1], dir_fd=parent)
        except (OSError, Refused):
            return


class NotThere(Refused):
    """No file or folder of that name."""


@contextmanager
def explained(parts: Parts) -> Iterator[None]:
    """Turn the errors that a path can cause into messages that name the path."""
    name = show(join(parts))
    try:
        yield
    except FileNotFoundError:
        raise NotThere(f"{name}: no such file or folder") from None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise Refused(
                f"{name}: this is not a folder (symbolic links are not followed)"
            ) from None
        raise Refused(f"{name}: {error.strerror}") from None


def _kind(mode: int) -> str:
    for test, kind in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if test(mode):
            return kind
    return "a device"
