"""What a script says: rules, each of them a match and either a reply or an error.

Plain frozen values. ``parse`` makes them from a file, ``choose`` picks one for a request, ``wire``
puts it into the provider's format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Match:
    """All given conditions must hold; an empty match holds for every request.

    Only the request is looked at, never what this server has seen before, so a match means the
    same after a restart of either side.
    """

    system: re.Pattern[str] | None = None
    turn: int | None = None
    contains: str | None = None
    model: re.Pattern[str] | None = None
    tool: str | None = None


@dataclass(frozen=True)
class ToolCall:
    """A tool the scripted model asks for; ``raw`` is the exact JSON text that is streamed.

    ``id`` is absent when the script gives none: then it is derived from the request.
    """

    name: str
    raw: str
    id: str | None = None


@dataclass(frozen=True)
class Reply:
    """A reply's content and how it travels.

    ``cut`` ends the answer in the middle: ``clean`` as if it were complete, ``reset`` with a
    connection reset. ``stall`` is a pause in the middle, with a ping event every ``ping`` seconds
    when that is given.
    """

    thinking: str | None = None
    blocks: tuple[Mapping[str, Any], ...] = ()
    text: str | None = None
    tools: tuple[ToolCall, ...] = ()
    stop: str = ""
    cut: Literal["", "clean", "reset"] = ""
    stall: float = 0.0
    ping: float = 0.0


@dataclass(frozen=True)
class Usage:
    """Token counts of a reply. The defaults are only there so that no reply is free."""

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True)
class Fault:
    """A provider error. ``times`` is how often this server gives it; absent means always.

    ``in_stream`` sends it as an ``error`` event after a 200, the way an overload during a stream
    arrives.
    """

    status: int
    times: int | None = None
    retry_after: float | None = None
    message: str = ""
    in_stream: bool = False


@dataclass(frozen=True)
class Rule:
    """One entry of ``replies``: exactly one of ``reply`` and ``fault`` is set."""

    match: Match
    reply: Reply | None = None
    fault: Fault | None = None
    usage: Usage = Usage()
    delay: float = 0.0


@dataclass(frozen=True)
class Script:
    """The rules in the order of the file; the first one that matches answers."""

    rules: tuple[Rule, ...]
