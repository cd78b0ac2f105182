"""Where the numbers were made: without this they mean nothing."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path

from bench.postgres import Ground
from bench.stats import Json, ms, timed

_PACKAGES = ("agentrun", "psycopg", "pydantic", "zstandard")
_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "data_checksums",
)


def machine(ground: Ground) -> Json:
    """Hardware, versions, and the server's durability."""
    with ground.sql() as sql:
        settings = {}
        for name in _SETTINGS:
            row = sql.execute("SELECT current_setting(%s)", (name,)).fetchone()
            settings[name] = row[0] if row else "?"
    return {
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "filesystem": _filesystem(ground.data),
        "fsync_8k_p50_ms": _fsync(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
        "psycopg": _implementation(),
        "postgres": settings,
    }


def load() -> float:
    """Processes that want a CPU, averaged over the last minute."""
    return round(os.getloadavg()[0], 1)


def _implementation() -> str:
    from psycopg import pq

    return f"{pq.__impl__}, libpq {pq.version()}"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "?"


def _filesystem(folder: Path) -> str:
    """The type of the filesystem with the longest mount point above the folder."""
    found = ("", "?")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def _fsync() -> float:
    """What the disk makes of 8 KB that have to be there: the floor of every durable commit."""
    with tempfile.TemporaryFile() as file:

        def write() -> None:
            file.write(bytes(8192))
            file.flush()
            os.fdatasync(file.fileno())

        return ms(statistics.median(timed(write) for _ in range(50)))
