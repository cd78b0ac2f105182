"""The hash chain over a run's commits: the same formula as in the SQL function that appends.

Each link covers the one before it, so a missing, moved or altered commit breaks every later hash.
"""

from __future__ import annotations

import hashlib


def genesis(run_uid: str) -> bytes:
    """The hash before the first commit; it binds the chain to the run."""
    return hashlib.sha256(f"agentrun|{run_uid}".encode()).digest()


def link(
    previous: bytes, seq: int, origin: str, kind: str, ref: str | None, codec: int, body: bytes
) -> bytes:
    """Hash of commit ``seq``. ``kind`` and ``ref`` cannot hold ``|`` (the table refuses it)."""
    head = f"{seq}|{origin}|{kind}|{ref or ''}|{codec}|".encode()
    return hashlib.sha256(previous + head + body).digest()
