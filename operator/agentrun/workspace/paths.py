"""From a path as a model writes it to the components that may be opened."""

from __future__ import annotations

from typing import Final

from agentrun.workspace.outcome import Refused

Parts = tuple[str, ...]

STAGING: Final = ".agentrun"
"""Folder of unfinished writes at the top of the tree: not part of it, out of reach of the tools."""

MAX_COMPONENT: Final = 255
MAX_PATH: Final = 1024
MAX_DEPTH: Final = 32


def parse(path: str) -> Parts:
    """The components of a relative path; empty for the top. Raises ``Refused``."""
    shown = show(path)
    if path.startswith("/"):
        raise Refused(f"{shown}: paths are relative to the workspace, without a leading /")
    if not plain(path):
        raise Refused(f"{shown}: the path holds a control character or is not valid text")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in parts:
        raise Refused(f"{shown}: .. is not allowed")
    if len(path.encode()) > MAX_PATH or any(len(part.encode()) > MAX_COMPONENT for part in parts):
        raise Refused(f"{shown}: the path is too long")
    if len(parts) > MAX_DEPTH:
        raise Refused(f"{shown}: the path is too deep")
    if parts and parts[0] == STAGING:
        raise Refused(f"{shown}: this name is reserved")
    return parts


def parse_file(path: str) -> Parts:
    """As ``parse``, for a path that must name something below the top."""
    parts = parse(path)
    if not parts:
        raise Refused("the path of a file is needed")
    return parts


def plain(name: str) -> bool:
    """Whether a name can be recorded and listed: UTF-8, without control characters."""
    return not any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) <= 0xDFFF for c in name)


def show(path: str) -> str:
    """The path as it may stand in a message: bounded, printable, on one line."""
    text = path if len(path) <= 200 else path[:200] + "…"
    return text if text.isprintable() else ascii(text)


def join(parts: Parts) -> str:
    return "/".join(parts)
