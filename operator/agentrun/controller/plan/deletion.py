"""An object that is being deleted, is gone, or whose namespace goes: revoke, create nothing (H24).

There is no finalizer. Deletion seen late can only revoke the object it belongs to (H64): everything
is keyed by UID, so an object re-created under the same name shares nothing with it.
"""

from __future__ import annotations

from agentrun.cluster.values import PodView
from agentrun.controller.actions import Actions, DeleteApproval, DeletePod, Revoke
from agentrun.controller.cache import object_key
from agentrun.controller.plan.cleanup import secrets
from agentrun.controller.plan.facts import object_uid, ours
from agentrun.controller.world import World

DELETED, NAMESPACE = "Deleted", "NamespaceTerminating"


def deletion(world: World) -> Actions | None:
    """The rule for a world in which nothing may be created any more."""
    if world.live_run is not None:
        return None
    return (*_revocation(world), *_secrets(world), *_pods(world), *_approvals(world))


def _revocation(world: World) -> Actions:
    row, uid = world.row, object_uid(world)
    if row is None or row.state.terminal or row.object_uid != uid:
        return ()
    deleting = world.run is None or world.run.metadata.deleting
    return (Revoke(row.run_uid, uid, DELETED if deleting else NAMESPACE),)


def _secrets(world: World) -> Actions:
    """Orphaned ones (``kubectl delete --cascade=orphan``) nobody else would collect, and an object
    that a finalizer keeps keeps them, too."""
    row = world.row
    if row is None or not row.state.terminal or world.seen_run is None:
        return ()
    return tuple(secrets(world, row))


def _pods(world: World) -> Actions:
    return tuple(
        DeletePod(pod.key, pod.uid)
        for pod in world.pods
        if not pod.deleting and (ours(world, pod) or _worked(world, pod))
    )


def _worked(world: World, pod: PodView) -> bool:
    """Whether a pod that lost its owner is ours all the same, because the record names its UID."""
    row = world.row
    if row is None or row.object_uid != object_uid(world) or pod.owner_uid is not None:
        return False
    named = {attempt.pod_uid for attempt in row.attempts}
    return pod.installation == world.settings.installation and pod.uid in named


def _approvals(world: World) -> Actions:
    """Those that lost their owner; the garbage collector takes the others."""
    uid = object_uid(world)
    if world.row is None or not uid:
        return ()
    return tuple(
        DeleteApproval(object_key(approval), approval.metadata.uid)
        for approval in world.approvals
        if approval.spec.run_ref.uid == uid
        and not approval.metadata.deleting
        and all(owner.uid != uid for owner in approval.metadata.owner_references)
    )
