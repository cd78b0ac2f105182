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
from agentrun.store.rows import RunRow

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
    if not world.freshness.synced or is_foreign(world) or world.live_run is None:
        return Plan(actions)
    wait = requeue_after(world)
    settled = not actions and wait is None and world.row is not None and world.row.state.terminal
    return Plan(actions, project(world), wait, settled)


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
    return (*approval_actions(world, run, row), *cleanup_actions(world, run, spec, row))
