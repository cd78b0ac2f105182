"""From nothing to the first attempt: opening the row, and the first mint."""

from __future__ import annotations

from agentrun.api import AgentRunSpec
from agentrun.controller.actions import Actions, CreatePod, Emit, Mint, OpenRun
from agentrun.controller.plan.desired import desired
from agentrun.controller.plan.settle import outcome
from agentrun.controller.world import World
from agentrun.store.rows import Requested, RunRow, RunState


def opening(world: World) -> Actions | None:
    """No row yet: capture the spec, unless it cannot be run as written (``InvalidSpec``).

    An invalid run is only shown as such. Nothing is recorded, so a budget taken back or a price
    added by the administrator makes it valid.
    """
    if world.row is not None:
        return None
    waits = world.trouble is not None and world.trouble.retry_in > 0
    cancelled = world.run is not None and world.run.spec.cancel
    if world.problems or (waits and not cancelled):
        return ()
    return (OpenRun(),)


def pending(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """Before the first mint: a run may be cancelled or suspended before it ever had a pod."""
    if row.state is not RunState.PENDING:
        return None
    wanted = desired(world, spec, row)
    if wanted.requested is Requested.CANCEL:
        return (outcome(wanted),)
    if wanted.requested is Requested.SUSPEND:
        return ()
    note = "the first attempt starts"
    return (Mint("start"), CreatePod(), Emit("Normal", "Started", "Starting", note))
