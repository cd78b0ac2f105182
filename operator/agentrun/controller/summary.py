"""Phase, reason and message of a run: derived for the eye, from the closed set."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentrun.api import Phase, Reason
from agentrun.controller.plan.approvals import unverified
from agentrun.controller.plan.budgets import spent
from agentrun.controller.plan.deadlines import waiting_reason
from agentrun.controller.plan.desired import desired
from agentrun.controller.plan.facts import charged, current_attempt
from agentrun.controller.plan.guards import regressed
from agentrun.controller.plan.takeover import waits_for_pod
from agentrun.controller.world import World
from agentrun.store.rows import Requested, RunRow, RunState

_WORD = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")

PHASE_OF = {
    RunState.PENDING: Phase.PENDING,
    RunState.ACTIVE: Phase.RUNNING,
    RunState.SUSPENDED: Phase.SUSPENDED,
    RunState.SUCCEEDED: Phase.SUCCEEDED,
    RunState.FAILED: Phase.FAILED,
    RunState.CANCELLED: Phase.CANCELLED,
    RunState.REJECTED: Phase.REJECTED,
    RunState.REVOKED: Phase.CANCELLED,
}
"""A revoked run that is still looked at belongs to an object on its way out."""

UNUSABLE_RECORD = {
    str(Reason.CHECKPOINT_NEWER): "the record was written by a newer release; this one waits",
    str(Reason.STORE_REGRESSED): "the store lost commits that it had acknowledged; the run waits",
}
"""By the cause of an attempt that could do nothing with what it found."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a person reads first. ``moving``: an attempt is being started or replaced."""

    phase: Phase
    reason: str = ""
    message: str = ""
    moving: bool = False


def reason_or_nothing(text: str | None) -> str:
    """``text`` if it can stand as a CamelCase reason, else nothing."""
    return text if text is not None and _WORD.fullmatch(text) else ""


def summarize(world: World) -> Summary:
    """First rule that applies."""
    row = world.row
    behind = regressed(world)
    if behind is not None:
        return Summary(Phase.PENDING, Reason.STORE_REGRESSED, behind)
    if row is None:
        return _without_row(world)
    if world.unreadable is Reason.CHECKPOINT_NEWER and not row.state.terminal:
        message = "the run was captured by a newer release; this one waits"
        return Summary(Phase.PENDING, Reason.CHECKPOINT_NEWER, message)
    if row.state is RunState.PENDING:
        return _pending(world, row)
    if row.state is RunState.ACTIVE:
        return _active(world, row)
    if row.state is RunState.SUSPENDED:
        return _suspended(world, row)
    if row.state is RunState.REVOKED:
        return Summary(Phase.CANCELLED, Reason.REVOKED, reason_or_nothing(row.reason))
    return Summary(
        PHASE_OF[row.state], reason_or_nothing(row.reason) or row.state.value, row.message
    )


def _without_row(world: World) -> Summary:
    if world.problems:
        return Summary(Phase.FAILED, Reason.INVALID_SPEC, "; ".join(world.problems))
    if not world.store_up:
        return Summary(Phase.PENDING, Reason.STORE_UNAVAILABLE, "the store does not answer")
    if world.trouble is not None:
        return Summary(Phase.PENDING, world.trouble.reason, world.trouble.message, moving=True)
    return Summary(Phase.PENDING, Reason.QUEUED, moving=True)


def _pending(world: World, row: RunRow) -> Summary:
    wanted = desired(world, world.spec, row) if world.spec is not None else None
    if wanted is not None and wanted.requested is Requested.SUSPEND:
        return Summary(Phase.SUSPENDED, Reason.SUSPENDED_BY_USER, "spec.suspend is set")
    return Summary(Phase.PENDING, Reason.QUEUED, moving=True)


def _active(world: World, row: RunRow) -> Summary:
    if row.requested is Requested.CANCEL:
        return Summary(Phase.RUNNING, Reason.CANCELLING, f"asked to end: {row.requested_reason}")
    if row.requested is Requested.SUSPEND:
        return Summary(Phase.RUNNING, Reason.SUSPENDING, f"asked to stop: {row.requested_reason}")
    if charged(row):
        return _backing_off(row)
    if row.holder is None:
        return _unclaimed(world, row)
    if row.lease_expired and world.spec is not None and waits_for_pod(world.spec):
        message = "the lease has expired; waiting for the pod, as lease.onUnreachable asks"
        return Summary(Phase.RUNNING, "", message)
    return Summary(Phase.RUNNING)


def _backing_off(row: RunRow) -> Summary:
    attempt = current_attempt(row)
    cause = reason_or_nothing(attempt.cause) if attempt is not None else ""
    if cause in UNUSABLE_RECORD:
        return Summary(Phase.PENDING, cause, UNUSABLE_RECORD[cause])
    message = f"attempt {row.attempt} ended with {cause}" if cause else ""
    return Summary(Phase.PENDING, Reason.BACK_OFF, message, moving=True)


def _unclaimed(world: World, row: RunRow) -> Summary:
    waits = waiting_reason(world, row)
    if waits is not None:
        return Summary(Phase.PENDING, waits[0], waits[1], moving=True)
    if row.attempt <= 1:
        return Summary(Phase.PENDING, Reason.STARTING, moving=True)
    return Summary(Phase.RUNNING, Reason.RESUMING, moving=True)


def waiting_for(count: int) -> str:
    """How many decisions are missing."""
    return f"{count} approval{'' if count == 1 else 's'} pending"


def _suspended(world: World, row: RunRow) -> Summary:
    count = len(row.pending_approvals)
    if unverified(world, row):
        message = (
            "the API server does not prove who decided; "
            "decisions wait until its admission policies are in place"
        )
        return Summary(Phase.SUSPENDED, Reason.APPROVAL_IDENTITY_UNVERIFIED, message)
    if row.requested is Requested.SUSPEND and row.requested_reason == "User":
        message = "spec.suspend is set" + (f"; {waiting_for(count)}" if count else "")
        return Summary(Phase.SUSPENDED, Reason.SUSPENDED_BY_USER, message)
    if count:
        return Summary(Phase.SUSPENDED, Reason.APPROVAL_PENDING, waiting_for(count))
    return Summary(Phase.SUSPENDED, reason_or_nothing(row.reason), _why_suspended(world, row))


def _why_suspended(world: World, row: RunRow) -> str:
    """What the pod said, unless the budgets have changed since."""
    if row.reason != Reason.BUDGET_EXCEEDED or world.spec is None:
        return row.message
    return spent(world.spec, row) or row.message
