"""Status is a projection of the world, and nothing reads it back.

It stays within 8 KB whatever the run (section 13), and it is written only when something a person
would notice has changed; mere progress is written at most once in ten seconds.
"""

from __future__ import annotations

from agentrun.api import (
    AgentRunSpec,
    AgentRunStatus,
    CheckpointStatus,
    Position,
    Reason,
    Usage,
)
from agentrun.api.names import approval_name
from agentrun.api.status import LIST_MAX, MESSAGE_MAX, RESULT_MAX
from agentrun.api.status_size import fitted
from agentrun.controller import history
from agentrun.controller.conditions import conditions
from agentrun.controller.plan.budgets import totals_of
from agentrun.controller.plan.facts import current_attempt
from agentrun.controller.summary import Summary, summarize
from agentrun.controller.world import World
from agentrun.run.budgets import dollars
from agentrun.store.rows import RunRow, RunState

PROGRESS_PATCH_SECONDS = 10.0


def project(world: World) -> AgentRunStatus | None:
    """The status that this world has; None when there is no object to show it on."""
    if world.run is None:
        return None
    old = world.run.status or AgentRunStatus()
    if not world.store_up and old.observed_generation:
        return _store_away(world, old)
    summary = summarize(world)
    spec = world.spec or world.run.spec
    status = _frame(world, spec, summary, old)
    if summary.reason == Reason.STORE_REGRESSED:
        status = _remembering(status, old)
    elif world.row is not None:
        status = status.model_copy(update=_record(world, spec, world.row, old))
    return fitted(status)


def _frame(
    world: World, spec: AgentRunSpec, summary: Summary, old: AgentRunStatus
) -> AgentRunStatus:
    """What can be said without a row."""
    meta = world.run.metadata if world.run is not None else None
    tasks = history.tasks(spec, world.row, summary.phase)
    return AgentRunStatus(
        observed_generation=meta.generation if meta is not None else 0,
        phase=summary.phase,
        reason=summary.reason,
        message=summary.message[:MESSAGE_MAX],
        run_id=(spec.run_id or (meta.uid if meta is not None else ""))[:128],
        tasks=history.most_telling(tasks),
        task_summary=history.task_summary(tasks),
        conditions=conditions(world, summary, old.conditions),
    )


def _record(
    world: World, spec: AgentRunSpec, row: RunRow, old: AgentRunStatus
) -> dict[str, object]:
    """What the row adds."""
    attempt = current_attempt(row)
    owned = row.state is RunState.ACTIVE and attempt is not None
    attempts = history.attempts(row, world.pods)
    resumed = row.attempt > 1 and row.first_commit_at is not None and spec.checkpoint.enabled
    pending = () if row.state.terminal else row.pending_approvals
    names = tuple(approval_name(world.key.name, request.id) for request in pending[:LIST_MAX])
    return {
        "run_id": row.run_id[:128],
        "attempt": row.attempt,
        "fence": row.fence,
        "pod_name": attempts[-1].pod if owned and attempts else "",
        "node_name": attempts[-1].node if owned and attempts else "",
        "attempts": attempts,
        "checkpoint": _checkpoint(spec, row),
        "resumed_from_checkpoint": resumed,
        "resume_position": _position(spec) if resumed else None,
        "usage": _usage(spec, row),
        "pending_approval_count": len(pending),
        "pending_approvals": names,
        "result": row.preview[:RESULT_MAX],
        "start_time": _start_time(row, old),
        "completion_time": row.finished_at if row.state.terminal else None,
    }


def _remembering(status: AgentRunStatus, old: AgentRunStatus) -> AgentRunStatus:
    """A lost row must stay visible as lost: attempt and fence in the status are what gives it away."""
    return status.model_copy(
        update={
            "run_id": old.run_id,
            "attempt": old.attempt,
            "fence": old.fence,
            "attempts": old.attempts,
            "checkpoint": old.checkpoint,
            "usage": old.usage,
            "start_time": old.start_time,
        }
    )


def _store_away(world: World, old: AgentRunStatus) -> AgentRunStatus:
    """Phases are kept while the store is away; only the checkpoint condition says so."""
    summary = Summary(old.phase, old.reason, old.message)
    fresh = {condition.type: condition for condition in conditions(world, summary, old.conditions)}
    kept = {condition.type: condition for condition in old.conditions}
    kept["CheckpointHealthy"] = fresh["CheckpointHealthy"]
    return old.model_copy(update={"conditions": tuple(kept.values())})


def _checkpoint(spec: AgentRunSpec, row: RunRow) -> CheckpointStatus | None:
    if row.last_commit_at is None:
        return None
    return CheckpointStatus(
        seq=row.seq,
        snapshot_seq=row.snapshot_seq,
        position=_position(spec),
        saved_at=row.last_commit_at,
    )


def _position(spec: AgentRunSpec) -> Position | None:
    """Where bookmarks are kept; with Both, the row does not say which came last."""
    position = spec.checkpoint.position
    return None if position is Position.BOTH else position


def _usage(spec: AgentRunSpec, row: RunRow) -> Usage:
    """The sums, as far as a status can show them: they are what a runner, and its provider, say."""
    totals = row.totals
    return Usage(
        turns=history.count(totals.turns),
        tool_calls=history.count(totals.tool_calls),
        input_tokens=history.count(totals.input_tokens),
        output_tokens=history.count(totals.output_tokens),
        cache_read_tokens=history.count(totals.cache_read_tokens),
        cache_write_tokens=history.count(totals.cache_write_tokens),
        total_tokens=history.count(totals_of(totals).tokens),
        cost_usd=dollars(max(totals.cost, 0)) if spec.pricing is not None else None,
    )


def _start_time(row: RunRow, old: AgentRunStatus) -> object:
    """The first claim. Once it is shown it stays, though only ten attempts are remembered."""
    if old.start_time is not None:
        return old.start_time
    claims = [a.claimed_at for a in row.attempts if a.claimed_at is not None]
    return min(claims, default=row.first_commit_at)


def needs_patch(
    old: AgentRunStatus | None, new: AgentRunStatus, since_last_patch: float | None
) -> bool:
    """Whether the new status is worth a write.

    ``since_last_patch`` is None when this process has written none yet.
    """
    if old is None or noticeable(old) != noticeable(new):
        return True
    if old == new:
        return False
    return since_last_patch is None or since_last_patch >= PROGRESS_PATCH_SECONDS


def noticeable(status: AgentRunStatus) -> AgentRunStatus:
    """The status without what changes at every boundary."""
    tasks = tuple(task.model_copy(update={"turns": 0}) for task in status.tasks)
    return status.model_copy(update={"usage": None, "checkpoint": None, "tasks": tasks})
