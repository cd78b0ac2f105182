"""``plan(world)``: pure, total, and the same for the same world."""

from __future__ import annotations

from agentrun.api import AgentRun, AgentRunSpec
from agentrun.controller.actions import Actions, Plan
from agentrun.controller.plan.active import active
from agentrun.controller.plan.approvals import approval_actions
from agentrun.controller.plan.cleanup import cleanup_actions
from agentrun.controller.plan.deletion import deletion
from agentrun.controller.plan.desired import write_desired
from agentrun.controller.plan.guards import (
    foreign,
    is_foreign,
    other_objects_row,
    store_away,
    store_regressed,
    unreadable,
    unsynced,
)
from agentrun.controller.plan.start import opening, pending
from agentrun.controller.plan.suspended import suspended
from agentrun.controller.plan.waits import requeue_after
from agentrun.controller.status import project
from agentrun.controller.world import World
from agentrun.store.rows import RunRow, RunState

GUARDS = (
    foreign,
    unsynced,
    store_away,
    deletion,
    store_regressed,
    opening,
    other_objects_row,
    unreadable,
)
"""Rules that need no row, in order."""

BY_STATE = (write_desired, pending, active, suspended)
"""Rules for a live row, in order. What is desired is written first, because mints repeat it (H26)."""


def plan(world: World) -> Plan:
    """What to do, what to show, and when to look again."""
    actions = decide(world)
    if not world.freshness.synced or is_foreign(world):
        return Plan(actions)
    if world.live_run is None:
        return Plan(actions, project(world) if lingers(world) else None)
    wait = requeue_after(world)
    settled = not actions and wait is None and world.row is not None and world.row.state.terminal
    return Plan(actions, project(world), wait, settled)


def lingers(world: World) -> bool:
    """Whether a revoked run's object is still there, kept by somebody's finalizer. It must not look
    as if it were at work."""
    run, row = world.run, world.row
    return (
        run is not None
        and run.metadata.deleting
        and not world.namespace_terminating
        and row is not None
        and row.state is RunState.REVOKED
        and row.object_uid == run.metadata.uid
    )


def decide(world: World) -> Actions:
    """The actions of the first rule that applies; when none does, what has to be tidied up."""
    for guard in GUARDS:
        actions = guard(world)
        if actions is not None:
            return actions
    run, spec, row = world.live_run, world.spec, world.row
    if run is None or spec is None or row is None:
        return ()
    return (() if row.state.terminal else _live(world, spec, row)) or _tidy(world, run, spec, row)


def _live(world: World, spec: AgentRunSpec, row: RunRow) -> Actions:
    for rule in BY_STATE:
        actions = rule(world, spec, row)
        if actions is not None:
            return actions
    return ()


def _tidy(world: World, run: AgentRun, spec: AgentRunSpec, row: RunRow) -> Actions:
    return (*approval_actions(world, run, spec, row), *cleanup_actions(world, run, spec, row))
