"""Performs a plan's actions in order, until one finds that the facts have moved.

Each is idempotent: repeated after a crash it finds its own work and goes on. What may be said to
have happened is decided by the store's answer alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from agentrun.cluster.values import ClusterEvent
from agentrun.controller import actions as act
from agentrun.controller.approvals import create_approval, decide, delete_approval, mark_approval
from agentrun.controller.attempts import (
    finish_body,
    new_attempt,
    new_identity,
    suspend_body,
)
from agentrun.controller.context import Context, Outcome, Pass
from agentrun.controller.failpoints import AFTER_MINT
from agentrun.controller.launch import add_secret, create_pod
from agentrun.controller.opening import open_run
from agentrun.controller.plan.facts import seen
from agentrun.controller.pods import confirm_pod, delete_pod, purge_secrets
from agentrun.controller.world import World
from agentrun.errors import ClusterError, Conflict, NotFound
from agentrun.run.display import shown

log = logging.getLogger(__name__)


async def execute(context: Context, world: World, plan: act.Actions) -> Outcome:
    """Perform the actions. Errors of the ports are raised: the key is tried again later."""
    at = Pass(world, world.row)
    for action in plan:
        await PERFORM[type(action)](context, at, action)
        if at.stop:
            break
    return Outcome(at.moved, at.confirmed)


async def _request(context: Context, at: Pass, action: act.SetRequested) -> None:
    row = await context.store.request(
        at.owned.run_uid,
        at.owned.object_uid,
        action.generation,
        action.requested,
        action.reason,
        action.by,
        action.budgets,
    )
    at.took(row)


async def _mint(context: Context, at: Pass, action: act.Mint) -> None:
    identity = new_identity(context.random_hex)
    new = new_attempt(at.owned, action.because, action.end, identity)
    row = await context.store.mint(seen(at.owned), action.because, new, action.end)
    if at.took(row):
        context.ledger.issue(at.owned, identity.secret, identity.suffix)
        context.meter.minted(action.because)
        context.reach(AFTER_MINT)


async def _charge(context: Context, at: Pass, action: act.Charge) -> None:
    at.took(await context.store.charge(seen(at.owned), action.end, action.backoff_ms))


async def _finish(context: Context, at: Pass, action: act.Finish) -> None:
    body = finish_body(at.owned, action)
    row = await context.store.finish(
        seen(at.owned),
        action.state,
        str(action.reason),
        shown(action.message),
        body.codec,
        body.body,
        action.end,
    )
    at.took(row)


async def _suspend(context: Context, at: Pass, action: act.Suspend) -> None:
    body = suspend_body(at.owned, action)
    row = await context.store.suspend(
        seen(at.owned), str(action.reason), shown(action.message), body.codec, body.body, action.end
    )
    at.took(row)


async def _revoke(context: Context, at: Pass, action: act.Revoke) -> None:
    at.took(await context.store.revoke(action.run_uid, action.object_uid, action.reason))


async def _delete_run(context: Context, at: Pass, _action: act.DeleteRun) -> None:
    try:
        await context.cluster.delete_run(at.run)
    except (NotFound, Conflict):
        at.stop = True


async def _emit(context: Context, at: Pass, action: act.Emit) -> None:
    """Events are never the sole record of anything, so a lost one is only logged."""
    uid = at.run.metadata.uid
    if not context.ledger.first_time(uid, action.reason, action.note):
        return
    event = ClusterEvent(at.run, action.type, action.reason, action.action, action.note)
    try:
        await context.cluster.emit(event)
    except ClusterError as error:
        log.warning("event %s of run %s was not posted: %s", action.reason, uid, error)


PERFORM: dict[type, Callable[[Context, Pass, Any], Awaitable[None]]] = {
    act.OpenRun: open_run,
    act.SetRequested: _request,
    act.Mint: _mint,
    act.AddSecret: add_secret,
    act.CreatePod: create_pod,
    act.DeletePod: delete_pod,
    act.ConfirmPod: confirm_pod,
    act.Charge: _charge,
    act.Finish: _finish,
    act.Suspend: _suspend,
    act.Revoke: _revoke,
    act.CreateApproval: create_approval,
    act.DeleteApproval: delete_approval,
    act.Decide: decide,
    act.MarkApproval: mark_approval,
    act.DeleteRun: _delete_run,
    act.PurgeSecrets: purge_secrets,
    act.Emit: _emit,
}
