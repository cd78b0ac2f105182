"""Small files that are either wholly there or not there, however their writer ends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_atomic(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write beside, force to disk, rename: a reader sees the old content or the new one.

    The writer's PID is in the temporary name, so that two writers never share it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """One JSON object, atomically."""
    write_atomic(path, json.dumps(value).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in the file, or None if there is no such file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    value: dict[str, Any] = json.loads(content)
    return value


def private_folder(path: Path) -> Path:
    """Make the folder (and those above it) for its owner alone."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path
