"""Content hashes, remembered as long as a file is surely unchanged."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Final

_SETTLED_NS: Final = 2_000_000_000
_BLOCK: Final = 1 << 20


class Hashes:
    """Hashes by path, valid for one (inode, size, mtime, ctime).

    A file that changed in the last two seconds is hashed again each time: a second change within
    one tick of the file system's clock would not show in its times.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}

    def of(self, path: str, opened: int, status: os.stat_result) -> str:
        """The sha256 of an open file whose status was read after it was opened."""
        identity = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known[0] == identity:
            return known[1]
        digest = hashlib.sha256()
        while block := os.read(opened, _BLOCK):
            digest.update(block)
        if time.time_ns() - status.st_ctime_ns > _SETTLED_NS:
            self._known[path] = (identity, digest.hexdigest())
        return digest.hexdigest()

    def keep(self, paths: set[str]) -> None:
        """Forget all but these."""
        self._known = {path: known for path, known in self._known.items() if path in paths}
