"""When nothing at all may be done: foreign runs, caches not synced, a store that cannot be trusted.

Never silently fresh: a record that is missing, went backwards, or was written by
a newer release makes the run wait with that reason; nothing is consumed, nothing is started.
"""

from __future__ import annotations

from agentrun.api import Reason
from agentrun.controller.actions import Actions, Finish
from agentrun.controller.plan.facts import object_uid
from agentrun.controller.world import World
from agentrun.store.rows import RunState


def foreign(world: World) -> Actions | None:
    """Another installation's run or row is left alone (H20, H21)."""
    return () if is_foreign(world) else None


def is_foreign(world: World) -> bool:
    """Whether the run is somebody else's."""
    settings = world.settings
    if world.run is not None and world.run.spec.controller_name != settings.controller_name:
        return True
    return world.row is not None and world.row.installation != settings.installation


def unsynced(world: World) -> Actions | None:
    """No plan before all caches have synced (H14)."""
    return None if world.freshness.synced else ()


def store_away(world: World) -> Actions | None:
    """Pods and phases are kept; runners go on by themselves."""
    return None if world.store_up else ()


def store_regressed(world: World) -> Actions | None:
    """The row is missing or behind what the status remembers: wait for a person."""
    return () if regressed(world) is not None else None


def regressed(world: World) -> str | None:
    """In words, how the store is behind the status; None when it is not."""
    status = world.run.status if world.run is not None else None
    if status is None or not world.store_up:
        return None
    if world.row is None:
        if status.attempt > 0:
            return (
                f"the store has no record of this run, which had reached attempt {status.attempt}"
            )
        return None
    if world.row.fence < status.fence:
        return f"the store is at fence {world.row.fence}, this run had reached {status.fence}"
    shown = status.checkpoint.seq if status.checkpoint is not None else 0
    if world.row.seq < shown:
        return f"the store is at commit {world.row.seq}, this run had reached {shown}"
    return None


def unreadable(world: World) -> Actions | None:
    """A captured spec of a newer release waits (H29); a corrupt one ends the run."""
    row = world.row
    if world.unreadable is None or row is None or row.state.terminal:
        return None
    if world.unreadable is Reason.CHECKPOINT_CORRUPT:
        message = "the captured spec does not match its hash"
        return (Finish(RunState.FAILED, Reason.CHECKPOINT_CORRUPT, message),)
    return ()


def other_objects_row(world: World) -> Actions | None:
    """The row belongs to another object (adopted meanwhile): hands off (H64)."""
    return () if world.row is not None and world.row.object_uid != object_uid(world) else None
