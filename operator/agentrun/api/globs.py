"""Globs on tools: ``server.tool`` with ``*`` and ``?``.

One definition for the operator, which refuses globs of unknown servers, and for the runner, which
decides with them what an agent may call and which policy holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache


def matches(glob: str, server: str, tool: str) -> bool:
    """Whether ``glob`` covers ``tool`` of ``server``.

    Both halves match on their own, so a wildcard never reaches over the dot between them.
    """
    wanted_server, _, wanted_tool = glob.partition(".")
    return bool(_pattern(wanted_server).fullmatch(server) and _pattern(wanted_tool).fullmatch(tool))


def matches_server(glob: str, servers: Iterable[str]) -> bool:
    """Whether the part of ``glob`` before the dot names any of ``servers``."""
    pattern = _pattern(glob.partition(".")[0])
    return any(pattern.fullmatch(server) for server in servers)


@lru_cache(maxsize=1024)
def _pattern(part: str) -> re.Pattern[str]:
    """``fnmatch`` without its brackets: its atomic groups keep any glob from backtracking."""
    return re.compile(translate(part.replace("[", "[[]")))
