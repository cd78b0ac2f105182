"""Keeps a status within 8 KB, whatever the length of the run.

The bounds of the single fields do not add up to that: ten attempts with trace links alone take half
of it. What a person misses least goes first: old attempts, then tasks, then the ends of texts. The
record has all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from agentrun.api.status import AgentRunStatus

STATUS_MAX: Final = 8 * 1024
"""Bytes of JSON of one status."""

_KEPT_ATTEMPTS: Final = 3
_KEPT_TASKS: Final = 3
_TEXT_LENGTHS: Final = (256, 128, 64, 32, 0)


def size(status: AgentRunStatus) -> int:
    """Bytes of the status as the API server stores it."""
    text = json.dumps(status.to_dict(), ensure_ascii=False, separators=(",", ":"))
    return len(text.encode(errors="replace"))


def fitted(status: AgentRunStatus) -> AgentRunStatus:
    """``status``, or as much of it as fits into ``STATUS_MAX`` bytes."""
    if size(status) <= STATUS_MAX:
        return status
    for smaller in _smaller(status):
        status = smaller
        if size(status) <= STATUS_MAX:
            break
    return status


def _smaller(status: AgentRunStatus) -> Iterator[AgentRunStatus]:
    """Ever smaller versions of ``status``, each made from the one before."""
    while len(status.attempts) > _KEPT_ATTEMPTS:
        status = status.model_copy(update={"attempts": status.attempts[1:]})
        yield status
    while len(status.tasks) > _KEPT_TASKS:
        status = status.model_copy(update={"tasks": status.tasks[:-1]})
        yield status
    for length in _TEXT_LENGTHS:
        status = _shortened(status, length)
        yield status
    status = status.model_copy(update={"attempts": status.attempts[-1:], "tasks": ()})
    yield status


def _shortened(status: AgentRunStatus, length: int) -> AgentRunStatus:
    conditions = tuple(
        condition.model_copy(update={"message": condition.message[:length]})
        for condition in status.conditions
    )
    return status.model_copy(
        update={
            "message": status.message[:length],
            "result": status.result[:length],
            "conditions": conditions,
        }
    )
