"""Results by call key, so that a call that is asked for twice is done once."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from agentrun.workspace.outcome import Outcome

_BUDGET: Final = 64 << 20


class Memory:
    """The results of this process. Those of calls that changed nothing may be forgotten.

    Forgetting a reading call costs nothing but another read; a change is never forgotten, because
    doing it again could append twice.
    """

    def __init__(self) -> None:
        self._changes: dict[str, tuple[str, Outcome]] = {}
        self._reads: OrderedDict[str, tuple[str, Outcome]] = OrderedDict()
        self._size = 0

    def recall(self, key: str) -> tuple[str, Outcome] | None:
        """The call's fingerprint and its result, if the key was used."""
        return self._changes.get(key) or self._reads.get(key)

    def keep(self, key: str, call: str, outcome: Outcome, *, reads: bool) -> None:
        if not reads:
            self._changes[key] = (call, outcome)
            return
        self._reads[key] = (call, outcome)
        self._size += len(outcome.text)
        while self._size > _BUDGET and self._reads:
            _, (_, oldest) = self._reads.popitem(last=False)
            self._size -= len(oldest.text)


def fingerprint(tool: str, args: Mapping[str, Any]) -> str:
    """Equal for equal calls, whatever the order of the arguments."""
    text = json.dumps([tool, args], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
