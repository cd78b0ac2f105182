"""How much of the size limit is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from agentrun.workspace.outcome import Refused

MAX_FILES: Final = 10_000


class Usage:
    """Bytes and files in use, counted once and then kept up by every change.

    Only this server writes to the tree. If something else did, the count may be too high, so a
    refusal is made only after counting anew.
    """

    def __init__(self, limit: int, count: Callable[[], Iterable[int]]) -> None:
        self._limit = limit
        self._count = count
        self._bytes: int | None = None
        self._files = 0

    def require(self, more_bytes: int, more_files: int) -> None:
        """Raise ``Refused`` if this much more would be over the limit."""
        if self._bytes is None or self._over(more_bytes, more_files):
            self._recount()
        if not self._over(more_bytes, more_files):
            return
        if more_bytes > 0:
            raise Refused(
                f"over the size limit: {self._bytes} of {self._limit} bytes are used,"
                f" this needs {more_bytes} more; nothing was changed"
            )
        raise Refused(f"over the limit of {MAX_FILES} files; nothing was changed")

    def changed(self, more_bytes: int, more_files: int) -> None:
        if self._bytes is not None:
            self._bytes += more_bytes
            self._files += more_files

    def unknown(self) -> None:
        """Count anew before the next use."""
        self._bytes = None

    def _over(self, more_bytes: int, more_files: int) -> bool:
        over_bytes = more_bytes > 0 and (self._bytes or 0) + more_bytes > self._limit
        return over_bytes or (more_files > 0 and self._files + more_files > MAX_FILES)

    def _recount(self) -> None:
        sizes = list(self._count())
        self._bytes, self._files = sum(sizes), len(sizes)
