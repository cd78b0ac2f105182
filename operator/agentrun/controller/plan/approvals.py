"""Questions to people: their objects, and the consumption of decisions.

Only an object whose UID the row remembers can decide anything; every other one of that name is
deleted and made again (H37, H71). Decisions are consumed in Suspended only (H13), and the operator
itself never writes one into an object.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentrun.api import (
    AgentRun,
    AgentRunSpec,
    Approval,
    ApprovalState,
    Decision,
    OnTimeout,
    Reason,
)
from agentrun.api.names import approval_name
from agentrun.cluster.values import ObjectKey
from agentrun.controller.actions import (
    Action,
    Actions,
    CreateApproval,
    CreatePod,
    Decide,
    DeleteApproval,
    Emit,
    Finish,
    MarkApproval,
)
from agentrun.controller.approval_object import asks_the_same, decided_state, state_of
from agentrun.controller.plan.facts import elapsed
from agentrun.controller.plan.unclaimed import avoided_node
from agentrun.controller.world import World
from agentrun.store.rows import ApprovalRow, RunRow, RunState

STALE = "Stale"
RECORDED = frozenset({Decision.APPROVE, Decision.DENY})
"""Decisions that this release's record can hold; others wait for one that can."""


def find(world: World, request: ApprovalRow) -> Approval | None:
    """The object that stands for a request: by name, and by the UID that the row remembers."""
    approval = named(world, request)
    if approval is None or approval.metadata.uid != request.object_uid:
        return None
    return approval


def named(world: World, request: ApprovalRow) -> Approval | None:
    """Whatever object has the request's name."""
    name = approval_name(world.key.name, request.id)
    return next((a for a in world.approvals if a.metadata.name == name), None)


def unverified(world: World, row: RunRow) -> bool:
    """Whether a decision waits only because nobody vouches for who made it (H42)."""
    return not _trusted(world) and any(
        (approval := find(world, request)) is not None and approval.spec.decision is not None
        for request in row.pending_approvals
    )


def consume(world: World, spec: AgentRunSpec, row: RunRow, *, may_mint: bool) -> Actions | None:
    """The first pending request that can be settled now, or None.

    Consumed while its user suspended the run, a decision is recorded and starts nothing (H26).
    """
    mint = may_mint and len(row.pending_approvals) == 1
    for request in row.pending_approvals:
        approval = find(world, request)
        if approval is None or approval.metadata.deleting:
            continue
        settled = _settle(world, spec, row, request, approval, mint)
        if settled is not None:
            return settled
    return None


def _settle(
    world: World,
    spec: AgentRunSpec,
    row: RunRow,
    request: ApprovalRow,
    approval: Approval,
    mint: bool,
) -> Actions | None:
    closed = closed_in_time(spec, row, request, approval)
    decision = approval.spec.decision
    if decision is not None and not (closed and decision is not Decision.DENY):
        if not asks_the_same(approval, request):
            why = "the object does not show what was asked"
            return _decide(world, row, request, approval, STALE, why, mint)
        if not _trusted(world) or decision not in RECORDED:
            return None
        reason = approval.spec.decision_reason
        return _decide(world, row, request, approval, decision, reason, mint)
    if not expired(spec, row, request):
        return None
    if not closed:
        return (MarkApproval(approval, ApprovalState.EXPIRED, "nobody decided in time"),)
    if spec.approvals.on_timeout is OnTimeout.FAIL:
        message = f"nobody decided about {request.boundary} in time"
        return (Finish(RunState.FAILED, Reason.APPROVAL_EXPIRED, message),)
    return _decide(
        world, row, request, approval, spec.approvals.on_timeout, "nobody decided in time", mint
    )


def _decide(
    world: World,
    row: RunRow,
    request: ApprovalRow,
    approval: Approval,
    decision: str,
    reason: str,
    mint: bool,
) -> Actions:
    by = approval.spec.decided_by if approval.spec.decision is not None else ""
    act = Decide(request, approval.metadata.uid, str(decision), by, reason, mint)
    pod: Actions = (CreatePod(avoided_node(world, row)),) if mint else ()
    state = _state(approval, str(decision))
    note = f"{approval.metadata.name}: {decision}" + (f" by {by}" if by else "")
    return (
        act,
        *pod,
        MarkApproval(approval, state, reason[:512], consumed=decision != STALE),
        Emit("Normal", "ApprovalDecided", "Deciding", note),
    )


def _state(approval: Approval, decision: str) -> ApprovalState:
    if decision == STALE:
        return ApprovalState.STALE
    expired_now = state_of(approval) is ApprovalState.EXPIRED
    return ApprovalState.EXPIRED if expired_now else decided_state(approval)


def closed_in_time(
    spec: AgentRunSpec, row: RunRow, request: ApprovalRow, approval: Approval
) -> bool:
    """Whether the operator has closed the object. It does so only once the time is over, so an
    object that says it earlier was written by somebody else."""
    return state_of(approval) is ApprovalState.EXPIRED and expired(spec, row, request)


def expired(spec: AgentRunSpec, row: RunRow, request: ApprovalRow) -> bool:
    """Whether its time is over, by the database's clock."""
    left = expires_in(spec, row, request)
    return left is not None and left <= 0


def expires_in(spec: AgentRunSpec, row: RunRow, request: ApprovalRow) -> float | None:
    """Seconds until a request expires; None: never."""
    limit = spec.approvals.expires_after_seconds
    return None if limit is None else limit - elapsed(row, request.requested_at)


def approval_actions(
    world: World, run: AgentRun, spec: AgentRunSpec, row: RunRow
) -> Iterator[Action]:
    """Make the objects agree with the rows: one per pending request, none left open without one."""
    names = set()
    for request in row.pending_approvals:
        names.add(approval_name(world.key.name, request.id))
        yield from _object_of(world, run, request)
        yield from _reopened(world, spec, row, request)
    for approval in world.approvals:
        other = approval.spec.run_ref.uid != run.metadata.uid
        if approval.metadata.name in names or approval.metadata.deleting or other:
            continue
        if state_of(approval) is ApprovalState.PENDING:
            decided = approval.spec.decision is not None and not row.state.terminal
            state = decided_state(approval) if decided else ApprovalState.CLOSED
            yield MarkApproval(approval, state, consumed=decided)


def _object_of(world: World, run: AgentRun, request: ApprovalRow) -> Iterator[Action]:
    """Deleting a pending Approval never approves: it is made again."""
    approval = named(world, request)
    if approval is not None:
        if approval.metadata.deleting:
            return
        known = approval.metadata.uid == request.object_uid
        decided = approval.spec.decision is not None
        if known and (decided or asks_the_same(approval, request)):
            return
        key = ObjectKey(run.metadata.namespace, approval.metadata.name)
        yield DeleteApproval(key, approval.metadata.uid)
    yield CreateApproval(request, request.object_uid)
    if request.object_uid is None and approval is None:
        note = f"{approval_name(world.key.name, request.id)} waits for a decision"
        yield Emit("Normal", "ApprovalRequested", "Asking", note)


def _reopened(
    world: World, spec: AgentRunSpec, row: RunRow, request: ApprovalRow
) -> Iterator[Action]:
    """An open question that somebody's write to the status made look closed: nobody could decide it
    any more, and the run would wait for ever."""
    approval = find(world, request)
    if approval is None or approval.metadata.deleting or approval.spec.decision is not None:
        return
    closed = closed_in_time(spec, row, request, approval)
    if not closed and state_of(approval) is not ApprovalState.PENDING:
        yield MarkApproval(approval, ApprovalState.PENDING)


def _trusted(world: World) -> bool:
    return world.identity_verified or world.settings.accept_unverified_decisions
