"""Approval objects and decisions. The operator never writes a decision into one."""

from __future__ import annotations

from datetime import datetime

from agentrun.api import (
    ApprovalState,
    ApprovalStatus,
    Condition,
    ConditionStatus,
    ConditionType,
    Reason,
)
from agentrun.controller.actions import CreateApproval, Decide, DeleteApproval, MarkApproval
from agentrun.controller.approval_object import approval_object
from agentrun.controller.attempts import decision_body, new_attempt, new_identity
from agentrun.controller.cache import object_key
from agentrun.controller.context import Context, Pass
from agentrun.controller.failpoints import AFTER_APPROVAL_CREATE, AFTER_DECIDE
from agentrun.controller.plan.facts import elapsed, seen
from agentrun.errors import AlreadyExists, Conflict, NotFound
from agentrun.store.rows import RunState


async def create_approval(context: Context, at: Pass, action: CreateApproval) -> None:
    """Create, then record the UID by compare-and-set. A crash between the two leaves an object whose
    UID nobody knows, which is deleted and made again (H71)."""
    at.moved = True
    wanted = approval_object(at.run, at.spec, action.request)
    try:
        approval = await context.cluster.create_approval(wanted)
    except AlreadyExists:
        context.cache.put_approval(await context.cluster.get_approval(object_key(wanted)))
        at.stop = True
        return
    context.reach(AFTER_APPROVAL_CREATE)
    context.cache.put_approval(approval)
    uid = approval.metadata.uid
    if not await context.store.bind_approval(
        action.request.run_uid, action.request.id, uid, action.replaces
    ):
        at.stop = True


async def delete_approval(context: Context, at: Pass, action: DeleteApproval) -> None:
    """Under its UID."""
    at.moved = True
    try:
        await context.cluster.delete_approval(action.key, action.uid)
    except Conflict:
        at.stop = True
    except NotFound:
        pass
    context.cache.remove_approval(action.key, action.uid)


async def decide(context: Context, at: Pass, action: Decide) -> None:
    """Consume a decision and, if nothing else is pending, mint (H12, H26). The pod follows by the
    plan's next action, or by the next plan when somebody else minted."""
    row = at.owned
    identity = new_identity(context.random_hex)
    body = decision_body(action)
    after = await context.store.decide(
        seen(row),
        action.request.id,
        action.object_uid,
        action.decision,
        action.decided_by,
        action.request.content_hash,
        body.codec,
        body.body,
        new_attempt(row, "resumed", None, identity) if action.mint else None,
    )
    if not at.took(after):
        return
    minted = at.owned.state is RunState.ACTIVE and at.owned.fence == row.fence + 1
    if minted and action.mint:
        context.ledger.issue(at.owned, identity.secret, identity.suffix)
        context.meter.minted("decided")
    waited = elapsed(at.owned, action.request.requested_at)
    context.meter.decided(action.decision, waited, resumed=minted)
    context.reach(AFTER_DECIDE)


async def mark_approval(context: Context, at: Pass, action: MarkApproval) -> None:
    """Under the object's resourceVersion: a decision that came in between is not overlooked (H72)."""
    at.moved = True
    key = object_key(action.approval)
    try:
        marked = await context.cluster.patch_approval_status(action.approval, _status(at, action))
    except Conflict:
        context.cache.put_approval(await context.cluster.get_approval(key))
        at.stop = True
    except NotFound:
        context.cache.remove_approval(key, action.approval.metadata.uid)
    else:
        context.cache.put_approval(marked)


def _status(at: Pass, action: MarkApproval) -> ApprovalStatus:
    old = action.approval.status or ApprovalStatus()
    moment = at.owned.db_now
    decided = action.approval.spec.decision is not None
    attempt = at.owned.attempt if at.owned.state is RunState.ACTIVE else at.owned.attempt + 1
    return ApprovalStatus(
        state=action.state,
        decided_at=old.decided_at or (moment if decided else None),
        consumed_at=moment if action.consumed else None,
        consumed_by_attempt=attempt if action.consumed else None,
        message=action.message[:512],
        conditions=(
            _condition(action, ConditionType.DECIDED, decided, Reason.DECIDED, moment),
            _condition(action, ConditionType.CONSUMED, action.consumed, Reason.CONSUMED, moment),
        ),
    )


NOT_SO = {
    ApprovalState.EXPIRED: Reason.EXPIRED,
    ApprovalState.STALE: Reason.STALE,
    ApprovalState.CLOSED: Reason.CLOSED,
}


def _condition(
    action: MarkApproval, kind: ConditionType, holds: bool, reason: Reason, moment: datetime
) -> Condition:
    old = action.approval.status.conditions if action.approval.status is not None else ()
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    before = next((c for c in old if c.type == kind and c.status is status), None)
    return Condition(
        type=kind,
        status=status,
        reason=reason if holds else NOT_SO.get(action.state, Reason.NOT_FINISHED),
        message=action.message[:512],
        last_transition_time=before.last_transition_time if before is not None else moment,
        observed_generation=action.approval.metadata.generation,
    )
