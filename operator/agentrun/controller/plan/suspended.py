"""A suspended run: decisions are consumed, and it resumes when nothing keeps it.

The planner mints level-triggered: Suspended, nothing pending, wanted, and the suspension's reason
cleared. So a lost hint loses nothing (H12), and a run that suspended itself does not spin (H68).
"""

from __future__ import annotations

from datetime import timedelta

from agentrun.api import AgentRunSpec, Reason
from agentrun.controller.actions import Actions, CreatePod, Emit, Mint
from agentrun.controller.plan.approvals import consume
from agentrun.controller.plan.budgets import keeps_suspended
from agentrun.controller.plan.desired import desired
from agentrun.controller.plan.facts import elapsed
from agentrun.controller.plan.settle import outcome
from agentrun.controller.plan.unclaimed import avoided_node
from agentrun.controller.world import World
from agentrun.store.rows import Requested, RunRow, RunState

OTHERS = frozenset({Reason.APPROVAL_PENDING, Reason.SUSPENDED_BY_USER, Reason.BUDGET_EXCEEDED})
"""Reasons that end when somebody acts; all others end by waiting."""


def suspended(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """First rule that applies in state Suspended."""
    if row.state is not RunState.SUSPENDED:
        return None
    wanted = desired(world, spec, row)
    if wanted.requested is Requested.CANCEL:
        return (outcome(wanted),)
    decisions = consume(world, spec, row, may_mint=resumable(world, spec, row))
    if decisions is not None:
        return decisions
    if row.pending_approvals or not resumable(world, spec, row):
        return None
    note = f"the suspension is over ({row.reason})"
    return (
        Mint("resumed"),
        CreatePod(avoided_node(world, row)),
        Emit("Normal", "Resumed", "Resuming", note),
    )


def resumable(world: World, spec: AgentRunSpec, row: RunRow) -> bool:
    """Whether nothing but pending questions keeps the run suspended."""
    wanted = desired(world, spec, row)
    return (
        wanted.requested is Requested.RUN
        and not keeps_suspended(spec, row)
        and resume_wait(world, row) <= 0
    )


def resume_wait(world: World, row: RunRow) -> float:
    """Seconds that a self-suspended run still waits: what it asked for, or the operator's default."""
    if row.retry_at is not None:
        return -elapsed(row, row.retry_at)
    if row.reason in OTHERS or row.suspended_at is None:
        return 0.0
    return timedelta(seconds=world.settings.resume_wait).total_seconds() - elapsed(
        row, row.suspended_at
    )
