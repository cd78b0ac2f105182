"""Text of a run as people and the status see it."""

from __future__ import annotations

MESSAGE_MAX = 1024


def shown(text: str, limit: int = MESSAGE_MAX) -> str:
    """The beginning of a text: valid characters and no control characters, because the status, the
    database's text columns and terminals each refuse some of those."""
    clean = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text[:limit])
    return clean + ("…" if len(text) > limit else "")
