"""Live reads and deletions of pods, and the Secrets that no pod needs any more."""

from __future__ import annotations

from agentrun.api import Reason
from agentrun.controller.actions import ConfirmPod, DeletePod, PurgeSecrets
from agentrun.controller.context import Context, Pass
from agentrun.controller.plan.facts import ours
from agentrun.controller.world import Confirmed
from agentrun.errors import Conflict, NotFound
from agentrun.store.rows import RunState


async def confirm_pod(context: Context, at: Pass, action: ConfirmPod) -> None:
    """What the API server says about a pod's name right now (H14)."""
    at.moved = True
    try:
        pod = await context.cluster.get_pod(action.key)
    except NotFound:
        known = context.cache.pods.get(action.key)
        if known is not None:
            context.cache.remove_pod(action.key, known.uid)
        at.confirmed = Confirmed(action.key.name, None)
        return
    context.cache.put_pod(pod)
    at.confirmed = Confirmed(action.key.name, pod)
    if not ours(at.world, pod):
        note = f"the pod name {action.key.name} is taken by another owner"
        context.ledger.troubled(at.run.metadata.uid, Reason.POD_NAME_CONFLICT, note)


async def delete_pod(context: Context, at: Pass, action: DeletePod) -> None:
    """Under its UID: a pod of that name with another one is not ours to delete."""
    at.moved = True
    try:
        await context.cluster.delete_pod(action.key, action.uid)
    except (NotFound, Conflict):
        context.cache.remove_pod(action.key, action.uid)
        return
    context.cache.mark_deleting(action.key, action.uid)


async def purge_secrets(context: Context, at: Pass, _action: PurgeSecrets) -> None:
    """All of the run's attempt Secrets but the one that a running pod was given."""
    row = at.owned
    issued = context.ledger.issued(row)
    keep = [issued.secret_name] if issued is not None and issued.secret_name else []
    running = row.state is RunState.ACTIVE
    await context.cluster.delete_attempt_secrets(at.seen_run, keep if running else [])
    await context.store.purge_secrets(row.run_uid)
    context.ledger.purged(row)
    at.moved = True
