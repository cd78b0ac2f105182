"""The request log: one JSON line per request, written before the first byte of its answer.

So a test that waits for a line knows that the request has arrived, even if the answer is delayed
or the client dies before it comes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class RequestLog:
    """Appends lines to a file, each with one write; without a path it does nothing."""

    def __init__(self, path: Path | None) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = None if path is None else os.open(path, flags, 0o644)

    def write(self, **fields: Any) -> None:
        if self._fd is not None:
            os.write(self._fd, json.dumps(fields).encode() + b"\n")

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
