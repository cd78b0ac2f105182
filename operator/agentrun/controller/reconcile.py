"""One reconcile of one key: observe, plan, execute, again until nothing is left, then the status.

Level-triggered: it never asks what happened, only what is. A crash between any two steps is the same
as stopping here; the next reconcile finds the facts and goes on.
"""

from __future__ import annotations

import logging

from agentrun.api import AgentRun, AgentRunStatus
from agentrun.cluster.values import ObjectKey
from agentrun.controller.actions import Actions, Emit, Plan
from agentrun.controller.cache import object_key
from agentrun.controller.events import status_event
from agentrun.controller.execute import execute
from agentrun.controller.failpoints import BEFORE_STATUS
from agentrun.controller.observe import Observer
from agentrun.controller.plan.facts import shows_end
from agentrun.controller.plan.plan import decide, plan
from agentrun.controller.status import PROGRESS_PATCH_SECONDS, needs_patch
from agentrun.controller.world import Confirmed, World
from agentrun.errors import ClusterError, Conflict, Forbidden, NotFound, Rejected, StoreUnavailable

log = logging.getLogger(__name__)

ROUNDS = 24
AGAIN = 1.0
"""Delay after a conflict: the watch brings the newer object, which is a reconcile of its own."""


class Reconciler:
    """The loop around ``plan``. Holds no state of its own but what is settled for good."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._context = observer.context
        self._settled: dict[ObjectKey, tuple[str, str]] = {}

    def settled(self, key: ObjectKey) -> bool:
        """Whether nothing but a change of the object can matter: finished runs cost nothing, not
        even when an operator starts and lists them all."""
        run = self._context.cache.runs.get(key)
        if run is None or self._context.cache.tombs(key):
            return False
        known = self._settled.get(key)
        return known == (run.metadata.uid, run.metadata.resource_version) or (
            shown_finished(run)
            and not self._context.cache.pods_of(key)
            and not self._context.ledger.in_work(run.metadata.uid)
        )

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Bring the object of this name, and gone ones, to where they should be.

        Returns seconds until it must be looked at again. Errors of the ports are raised. What has
        just ended is looked at again at once, because the TTL waits for its end to be shown.
        """
        for uid in self._context.cache.tombs(key):
            await self._bury(key, uid)
        try:
            world, last = await self._act(key)
        except ClusterError as error:
            if not error.retryable:
                await self._show_as_is(key, error)
            raise
        return await self._show(key, world, last)

    async def _act(self, key: ObjectKey) -> tuple[World, Plan]:
        """Until the plan asks for nothing, or for the same that has just failed to move anything."""
        confirmed: Confirmed | None = None
        before: Actions = ()
        for _ in range(ROUNDS):
            world = await self._observer.world(key, confirmed)
            actions = decide(world)
            if not actions or actions == before:
                break
            outcome = await execute(self._context, world, actions)
            confirmed, before = outcome.confirmed, actions
            if not outcome.moved:
                break
        return world, plan(world)

    async def _show_as_is(self, key: ObjectKey, refused: ClusterError) -> None:
        """What the API server refuses (a quota on approvals, say) must not freeze the status."""
        world = await self._observer.world(key)
        if world.live_run is not None and isinstance(refused, Forbidden | Rejected):
            event = Emit("Warning", "Refused", "Reconciling", str(refused))
            await execute(self._context, world, (event,))
        await self._show(key, world, plan(world))

    async def _bury(self, key: ObjectKey, uid: str) -> None:
        """Revoke what belonged to an object that is gone, and delete its pods. Pods that may not be
        deleted are the garbage collector's; they must not keep the next run of that name waiting."""
        for _ in range(ROUNDS):
            world = await self._observer.gone(key, uid)
            if not world.store_up:
                raise StoreUnavailable("no answer", attempted="revoke a deleted run", on=str(key))
            actions = decide(world)
            if not actions:
                break
            try:
                await execute(self._context, world, actions)
            except ClusterError as error:
                if error.retryable:
                    raise
                log.warning("run %s (%s) is gone, its pods are not: %s", key, uid, error)
                break
        self._settled.pop(key, None)
        self._context.cache.settle_tomb(key, uid)
        self._context.ledger.forget(uid)
        self._context.ledger.forget_namespace(key.namespace)

    async def _show(self, key: ObjectKey, world: World, current: Plan) -> float | None:
        wait = AGAIN if current.actions else current.requeue_after
        if current.status is not None and world.run is not None:
            late = await self._patch(world, current.status)
            wait = min((w for w in (wait, late) if w is not None), default=None)
        if not world.store_up:
            raise StoreUnavailable("no answer", attempted="read the run", on=str(key))
        self._remember(key, current, wait)
        return wait

    async def _patch(self, world: World, status: AgentRunStatus) -> float | None:
        """Write the status if a person would notice; returns when to write it otherwise."""
        run = world.run
        assert run is not None
        uid, ledger = run.metadata.uid, self._context.ledger
        since = ledger.since_patch(uid)
        if not needs_patch(run.status, status, since):
            if run.status == status or since is None:
                return None
            return max(PROGRESS_PATCH_SECONDS - since, 0.0)
        self._context.reach(BEFORE_STATUS)
        try:
            patched = await self._context.cluster.patch_run_status(run, status)
        except Conflict:
            await self._refresh(object_key(run))
            return AGAIN
        except NotFound:
            self._context.cache.remove_run(run)
            return 0.0
        ledger.patched(uid)
        self._context.cache.put_run(patched)
        event = status_event(run.status, status)
        if event is not None:
            log.info("run %s (%s): %s", object_key(run), uid, event.note)
            await execute(self._context, world, (event,))
        just_ended = status.completion_time is not None and not shows_end(run)
        return 0.0 if just_ended else None

    async def _refresh(self, key: ObjectKey) -> None:
        """The object changed under us: read it, since the next plan needs what changed."""
        try:
            self._context.cache.put_run(await self._context.cluster.get_run(key))
        except NotFound:
            return

    def _remember(self, key: ObjectKey, current: Plan, wait: float | None) -> None:
        run = self._context.cache.runs.get(key)
        if run is not None and current.settled and wait is None:
            self._settled[key] = (run.metadata.uid, run.metadata.resource_version)
            self._context.ledger.forget(run.metadata.uid)
        else:
            self._settled.pop(key, None)


def shown_finished(run: AgentRun) -> bool:
    """Whether the status shows the end of this very generation, and no TTL runs.

    The end is shown after everything else was done, so there is nothing left to look at.
    """
    status = run.status
    return (
        status is not None
        and shows_end(run)
        and status.observed_generation == run.metadata.generation
        and run.spec.ttl_seconds_after_finished is None
    )
