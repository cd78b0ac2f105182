"""Attempts and tasks as status shows them: the last ten, the ten most telling (H56)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentrun.api import (
    AgentRunSpec,
    AttemptStatus,
    ContinuedFrom,
    Fault,
    Phase,
    TaskPhase,
    TaskStatus,
    TaskSummary,
)
from agentrun.api.bounds import COUNT_MAX
from agentrun.api.status import LIST_MAX
from agentrun.cluster.values import PodView
from agentrun.controller.summary import reason_or_nothing
from agentrun.run.identity import MAIN_TASK
from agentrun.store.rows import AttemptRow, RunRow

_TRACE = re.compile(r"[0-9a-f]{32}")
_SPAN = re.compile(r"[0-9a-f]{16}")
NAME_MAX = 63

ORDER = (
    TaskPhase.FAILED,
    TaskPhase.RUNNING,
    TaskPhase.AWAITING_APPROVAL,
    TaskPhase.PENDING,
    TaskPhase.SUCCEEDED,
    TaskPhase.SKIPPED,
)
"""Failed, then active, then the rest."""

TASK_OF = {
    Phase.PENDING: TaskPhase.PENDING,
    Phase.RUNNING: TaskPhase.RUNNING,
    Phase.SUSPENDED: TaskPhase.RUNNING,
    Phase.SUCCEEDED: TaskPhase.SUCCEEDED,
    Phase.FAILED: TaskPhase.FAILED,
    Phase.CANCELLED: TaskPhase.SKIPPED,
    Phase.REJECTED: TaskPhase.FAILED,
}


def attempts(row: RunRow, pods: Iterable[PodView]) -> tuple[AttemptStatus, ...]:
    """The last ten, each linked to the one before (trace, root span, last commit)."""
    nodes = {pod.uid: pod.node for pod in pods}
    by_number = {attempt.attempt: attempt for attempt in row.attempts}
    return tuple(
        _attempt(attempt, by_number, nodes.get(attempt.pod_uid or ""))
        for attempt in row.attempts[-LIST_MAX:]
    )


def _attempt(
    attempt: AttemptRow, by_number: dict[int, AttemptRow], node: str | None
) -> AttemptStatus:
    return AttemptStatus(
        attempt=attempt.attempt,
        fence=attempt.fence,
        pod=attempt.pod[:NAME_MAX],
        node=(attempt.node or node or "")[:253],
        started_at=attempt.claimed_at,
        ended_at=attempt.ended_at,
        cause=reason_or_nothing(attempt.cause),
        fault=Fault(attempt.fault) if attempt.fault in ("App", "Infra") else None,
        exit_code=None if attempt.exit_code is None else attempt.exit_code & 0xFF,
        last_seq=attempt.last_seq or 0,
        trace_id=trace(attempt.trace_id),
        span_id=span(attempt.span_id),
        continued_from=_link(attempt, by_number),
    )


def _link(attempt: AttemptRow, by_number: dict[int, AttemptRow]) -> ContinuedFrom | None:
    number = attempt.continued_from_attempt
    if number is None:
        return None
    before = by_number.get(number)
    return ContinuedFrom(
        attempt=number,
        trace_id=trace(before.trace_id) if before is not None else "",
        span_id=span(before.span_id) if before is not None else "",
        seq=attempt.continued_from_seq or 0,
    )


def trace(text: str) -> str:
    """A trace id, or nothing."""
    return text if _TRACE.fullmatch(text) else ""


def span(text: str) -> str:
    """A span id, or nothing."""
    return text if _SPAN.fullmatch(text) else ""


def count(number: int) -> int:
    """A count as far as a status can hold it."""
    return min(max(number, 0), COUNT_MAX)


def tasks(spec: AgentRunSpec, row: RunRow | None, phase: Phase) -> tuple[TaskStatus, ...]:
    """All tasks. A ``prompt`` is the single task ``main``."""
    known = TASK_OF[phase]
    if not spec.tasks:
        agent = spec.entry_agent
        return (
            TaskStatus(
                name=MAIN_TASK,
                agent=agent.name if agent is not None else "",
                phase=known,
                turns=count(row.totals.turns) if row is not None else 0,
                tries=1 if row is not None and row.attempt > 0 else 0,
            ),
        )
    done = known if known is TaskPhase.SUCCEEDED else TaskPhase.PENDING
    return tuple(TaskStatus(name=task.name, agent=task.agent, phase=done) for task in spec.tasks)


def most_telling(items: Iterable[TaskStatus]) -> tuple[TaskStatus, ...]:
    """At most ten, in the order that a person asks about them."""
    return tuple(sorted(items, key=lambda task: ORDER.index(task.phase))[:LIST_MAX])


def task_summary(items: tuple[TaskStatus, ...]) -> TaskSummary:
    """Counts by phase; a task that waits for a person counts as running."""
    phases = [task.phase for task in items]
    return TaskSummary(
        total=len(items),
        running=phases.count(TaskPhase.RUNNING) + phases.count(TaskPhase.AWAITING_APPROVAL),
        succeeded=phases.count(TaskPhase.SUCCEEDED),
        failed=phases.count(TaskPhase.FAILED),
        skipped=phases.count(TaskPhase.SKIPPED),
    )
