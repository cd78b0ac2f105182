"""Which rule answers a request."""

from __future__ import annotations

import threading

from agentrun.devmodel.request import Request
from agentrun.devmodel.script import Match, Rule, Script


class Chooser:
    """First match wins; an ``error`` rule with ``times`` steps aside when it is used up.

    The uses are counted per rule and kept for the life of the server process. That count is the
    only memory: everything else depends on the request alone.
    """

    def __init__(self, script: Script) -> None:
        self._rules = script.rules
        self._used: dict[int, int] = {}
        self._lock = threading.Lock()

    def choose(self, request: Request) -> tuple[int, Rule] | None:
        for index, rule in enumerate(self._rules):
            if matches(rule.match, request) and self._take(index, rule):
                return index, rule
        return None

    def _take(self, index: int, rule: Rule) -> bool:
        if rule.fault is None or rule.fault.times is None:
            return True
        with self._lock:
            used = self._used.get(index, 0)
            self._used[index] = used + 1
        return used < rule.fault.times


def matches(match: Match, request: Request) -> bool:
    """Whether every given condition holds."""
    return (
        (match.turn is None or match.turn == request.turn)
        and (match.tool is None or match.tool in request.tools)
        and (match.contains is None or match.contains in request.last_user)
        and (match.model is None or match.model.search(request.model) is not None)
        and (match.system is None or match.system.search(request.system) is not None)
    )
