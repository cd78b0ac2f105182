"""What is wanted of the run: one function of the spec, the deadlines and the budgets.

Cancel latches. The reason is carried, so that a passed deadline is never reported as a user's
cancel (H27). An operator whose object is older than the row's generation changes nothing (H63).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrun.api import AgentRunSpec, OnExceeded
from agentrun.controller.actions import Actions, SetRequested
from agentrun.controller.plan.budgets import active_budget_spent, budgets_of
from agentrun.controller.plan.deadlines import wall_deadline_passed
from agentrun.controller.world import World
from agentrun.store.rows import Requested, RunRow

USER, DEADLINE, BUDGET = "User", "Deadline", "Budget"


@dataclass(frozen=True, slots=True)
class Desired:
    """What is wanted and why; the reason is empty for ``run``."""

    requested: Requested
    reason: str = ""


def desired(world: World, spec: AgentRunSpec, row: RunRow) -> Desired:
    """The ordered list; a latched cancel keeps its first reason."""
    if row.requested is Requested.CANCEL:
        return Desired(Requested.CANCEL, row.requested_reason)
    if wall_deadline_passed(spec, row):
        return Desired(Requested.CANCEL, DEADLINE)
    if stale(world, row):
        return Desired(row.requested, row.requested_reason)
    if spec.cancel:
        return Desired(Requested.CANCEL, USER)
    spent = active_budget_spent(spec, row)
    if spent and spec.limits.on_exceeded is OnExceeded.FAIL:
        return Desired(Requested.CANCEL, BUDGET)
    if spec.suspend:
        return Desired(Requested.SUSPEND, USER)
    if spent:
        return Desired(Requested.SUSPEND, BUDGET)
    return Desired(Requested.RUN)


def stale(world: World, row: RunRow) -> bool:
    """Whether the row was already told of a newer spec than this cache has."""
    return world.run is None or world.run.metadata.generation < row.generation


def write_desired(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """Tell the row, when what it holds is not what is wanted."""
    wanted = desired(world, spec, row)
    known = Desired(row.requested, row.requested_reason)
    if stale(world, row) or world.run is None:
        budgets, generation = row.budgets, row.generation
    else:
        budgets, generation = budgets_of(spec), world.run.metadata.generation
    if (wanted, budgets, generation) == (known, row.budgets, row.generation):
        return None
    by = wanted.reason.lower() or "spec"
    return (SetRequested(wanted.requested, wanted.reason, by, budgets, generation),)
