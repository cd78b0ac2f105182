"""An object that is being deleted, is gone, or whose namespace goes: revoke, create nothing (H24).

There is no finalizer. Deletion seen late can only revoke the object it belongs to (H64): everything
is keyed by UID, so an object re-created under the same name shares nothing with it.
"""

from __future__ import annotations

from agentrun.controller.actions import Action, Actions, DeletePod, Revoke
from agentrun.controller.plan.facts import object_uid, ours
from agentrun.controller.world import World

DELETED, NAMESPACE = "Deleted", "NamespaceTerminating"


def deletion(world: World) -> Actions | None:
    """The rule for a world in which nothing may be created any more."""
    if world.live_run is not None:
        return None
    return (*_revocation(world), *_pods(world))


def _revocation(world: World) -> Actions:
    row, uid = world.row, object_uid(world)
    if row is None or row.state.terminal or row.object_uid != uid:
        return ()
    deleting = world.run is None or world.run.metadata.deleting
    return (Revoke(row.run_uid, uid, DELETED if deleting else NAMESPACE),)


def _pods(world: World) -> tuple[Action, ...]:
    return tuple(
        DeletePod(pod.key, pod.uid) for pod in world.pods if ours(world, pod) and not pod.deleting
    )
