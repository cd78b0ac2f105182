"""SQL texts by name, from ``queries/*.sql``: a block begins with ``-- name: <name>``.

Other comment lines say why and are not sent. Loaded once, when the module that uses them is
imported.
"""

from __future__ import annotations

from importlib import resources
from typing import LiteralString


def load(file: str) -> dict[str, LiteralString]:
    """The statements of one file. The texts ship with the program, so they count as literals."""
    text = (resources.files("agentrun.store") / "queries" / file).read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("-- name:"):
            lines = found.setdefault(line.removeprefix("-- name:").strip(), [])
        elif line.strip() and not line.lstrip().startswith("--"):
            lines.append(line)
    return {name: "\n".join(lines).rstrip(";") for name, lines in found.items()}
