"""What a call comes to, independent of the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentrun.workspace.protocol import Deleted, FileEntry


class Refused(Exception):
    """The call cannot be done as asked; nothing changed. The message is for the model."""


@dataclass(frozen=True)
class Outcome:
    """A result. ``notes`` follow ``text`` as blocks of their own, so that ``text`` stays exact.

    ``not_sent`` says that the call was turned away unexecuted, as if it had never arrived.
    """

    text: str
    notes: tuple[str, ...] = ()
    is_error: bool = False
    changed: tuple[FileEntry | Deleted, ...] = ()
    not_sent: bool = False
    structured: Mapping[str, Any] | None = None


def failed(message: str, *, not_sent: bool = False) -> Outcome:
    return Outcome(message, is_error=True, not_sent=not_sent)
