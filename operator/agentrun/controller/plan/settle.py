"""Suspend and cancel of a run that has an owner (H27, H61).

The runner is asked and settles at its next boundary. When it has not within the grace period and
30 s, or when there is no pod that could, the operator raises the fence and writes the outcome
itself. An attempt that never claimed has done nothing, so it is not waited for.
"""

from __future__ import annotations

from agentrun.api import AgentRunSpec, Reason
from agentrun.controller.actions import Action, Actions, Emit, Finish, Suspend
from agentrun.controller.plan.accounting import exhausted
from agentrun.controller.plan.deadlines import wall_deadline
from agentrun.controller.plan.desired import BUDGET, DEADLINE, Desired, desired
from agentrun.controller.plan.facts import NOT_SETTLED, charged, grace
from agentrun.controller.plan.takeover import Ended, end_of_claimed
from agentrun.controller.world import World
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import Requested, RunRow, RunState


def outcome(wanted: Desired, end: AttemptEnd | None = None) -> Finish:
    """What a cancel comes to, by its reason (H27)."""
    if wanted.reason == DEADLINE:
        return Finish(
            RunState.FAILED, Reason.DEADLINE_EXCEEDED, "limits.deadlineSeconds passed", end
        )
    if wanted.reason == BUDGET:
        message = "limits.activeDeadlineSeconds used up"
        return Finish(RunState.FAILED, Reason.BUDGET_EXCEEDED, message, end)
    return Finish(RunState.CANCELLED, Reason.CANCELLED_BY_USER, "spec.cancel was set", end)


def suspension(wanted: Desired, end: AttemptEnd | None = None) -> Suspend:
    """What a suspend comes to."""
    if wanted.reason == BUDGET:
        return Suspend(Reason.BUDGET_EXCEEDED, "limits.activeDeadlineSeconds used up", end)
    return Suspend(Reason.SUSPENDED_BY_USER, "spec.suspend is set", end)


def settle(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """The rule for an owned run that is to stop; None when it is to go on."""
    wanted = desired(world, spec, row)
    if wanted.requested is Requested.RUN:
        return None
    if row.holder is None or charged(row):
        return (_write(wanted, None),)
    found = end_of_claimed(world, spec, row)
    if isinstance(found, Ended):
        final = _too_many(spec, row, wanted, found)
        return (final or _write(wanted, found.verdict.end),)
    if found:
        return found
    if unsettled_for(world, spec, row, wanted) >= grace(world):
        end = AttemptEnd(NOT_SETTLED, "None")
        note = "the pod did not stop in time; its late writes will be refused"
        return (_write(wanted, end), Emit("Warning", NOT_SETTLED, "Stopping", note))
    return ()


def unsettled_for(world: World, spec: AgentRunSpec, row: RunRow, wanted: Desired) -> float:
    """How long the runner has been asked. A restarted operator counts anew, but for a deadline."""
    if wanted.reason == DEADLINE:
        left = wall_deadline(spec, row)
        return max(world.requested_age, -left if left is not None else 0.0)
    return world.requested_age


def _too_many(spec: AgentRunSpec, row: RunRow, wanted: Desired, found: Ended) -> Finish | None:
    """A suspended run must not come back to find that it had failed for good."""
    suspends = wanted.requested is Requested.SUSPEND
    return exhausted(spec, row, found.verdict) if suspends else None


def _write(wanted: Desired, end: AttemptEnd | None) -> Action:
    if wanted.requested is Requested.CANCEL:
        return outcome(wanted, end)
    return suspension(wanted, end)
