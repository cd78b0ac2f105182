"""When to look again at the latest: one delayed requeue for every deadline."""

from __future__ import annotations

from collections.abc import Iterator

from agentrun.api import AgentRunSpec
from agentrun.controller.plan.approvals import expires_in
from agentrun.controller.plan.budgets import active_budget_left
from agentrun.controller.plan.cleanup import kept_for, kept_pod, settled_since, ttl_left
from agentrun.controller.plan.deadlines import start_deadline, wall_deadline
from agentrun.controller.plan.desired import desired
from agentrun.controller.plan.facts import charged, elapsed, grace, ours
from agentrun.controller.plan.settle import unsettled_for
from agentrun.controller.plan.suspended import resumable, resume_wait
from agentrun.controller.plan.takeover import lease_embargo, waits_for_pod
from agentrun.controller.world import World
from agentrun.store.rows import Requested, RunRow, RunState

SOON = 0.05
"""Clocks of two machines tick apart: a deadline is looked at a moment after it, never before."""


def requeue_after(world: World) -> float | None:
    """Seconds until the nearest deadline; None when only a change can make a difference."""
    if world.trouble is not None and world.trouble.retry_in > 0:
        return world.trouble.retry_in + SOON
    if world.row is None or world.spec is None or world.live_run is None:
        return None
    waits = [wait for wait in _waits(world, world.spec, world.row) if wait is not None]
    return max(min(waits), 0.0) + SOON if waits else None


def _waits(world: World, spec: AgentRunSpec, row: RunRow) -> Iterator[float | None]:
    if row.state.terminal:
        yield ttl_left(spec, row)
    else:
        yield _positive(wall_deadline(spec, row))
    if row.state is RunState.ACTIVE:
        yield from _active(world, spec, row)
    if row.state is RunState.SUSPENDED:
        yield from _suspended(world, spec, row)
    yield from _pods(world, row)


def _active(world: World, spec: AgentRunSpec, row: RunRow) -> Iterator[float | None]:
    if charged(row):
        yield -elapsed(row, row.retry_at) if row.retry_at is not None else 0.0
        return
    yield start_deadline(world, spec, row)
    yield _positive(active_budget_left(spec, row))
    if row.holder is not None and row.lease_expires_at is not None and not waits_for_pod(spec):
        lease = -elapsed(row, row.lease_expires_at)
        yield max(lease, lease_embargo(world.freshness, row))
    wanted = desired(world, spec, row)
    if wanted.requested is not Requested.RUN:
        yield grace(world) - unsettled_for(world, spec, row, wanted)


def _suspended(world: World, spec: AgentRunSpec, row: RunRow) -> Iterator[float | None]:
    for request in row.pending_approvals:
        yield _positive(expires_in(spec, row, request))
    wait = resume_wait(world, row)
    if not row.pending_approvals and (wait > 0 or resumable(world, spec, row)):
        yield wait


def _pods(world: World, row: RunRow) -> Iterator[float | None]:
    kept = kept_pod(world, row)
    if kept is not None:
        yield kept_for(world, row, kept)
    since = settled_since(row)
    leftover = any(pod is not kept and not pod.deleting and ours(world, pod) for pod in world.pods)
    if since is not None and leftover:
        yield grace(world) - elapsed(row, since)


def _positive(wait: float | None) -> float | None:
    """A deadline that has passed was acted upon; it does not wake anybody again."""
    return wait if wait is not None and wait > 0 else None
