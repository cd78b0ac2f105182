"""The operator: feeds, poll, resync and workers around one queue. The same in a cluster and locally.

Workers are there before the watch starts (Kopf takes every task made after it for its own) and wait
at the gate: no plan before all caches hold a complete list (H14).
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentrun.cluster.port import Cluster
from agentrun.cluster.values import ObjectKey
from agentrun.controller.cache import Cache, object_key
from agentrun.controller.context import Context, Credentials
from agentrun.controller.failpoints import armed
from agentrun.controller.freshness import Heartbeat
from agentrun.controller.ledger import Ledger
from agentrun.controller.meter import Meter
from agentrun.controller.observe import Observer
from agentrun.controller.pause import pause
from agentrun.controller.poll import Poll
from agentrun.controller.queue import WorkQueue
from agentrun.controller.reconcile import Reconciler
from agentrun.controller.resync import Resync, load
from agentrun.controller.settings import Settings
from agentrun.errors import AgentRunError
from agentrun.store.port import OperatorStore

if TYPE_CHECKING:
    from agentrun.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

Watch = Callable[["Operator", asyncio.Event], Coroutine[None, None, None]]
"""Fills ``operator.cache`` and ``operator.queue`` until told to stop."""

IdentityCheck = Callable[[], Awaitable[bool]]
"""Whether the API server refuses a forged decision (tried as a dry run)."""

IDENTITY_CHECK_SECONDS = 600.0
IDENTITY_RETRY_SECONDS = 5.0
LOAD_RETRY_SECONDS = 2.0


def told_to_end() -> bool:
    """Whether this task was cancelled, even if what it waited for swallowed that: up to Python 3.11
    ``asyncio.wait_for``, which connection pools use, does so when its result comes just then."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Operator:
    """One operator process over a store and a cluster."""

    def __init__(
        self,
        store: OperatorStore,
        cluster: Cluster,
        settings: Settings,
        *,
        watch: Watch | None = None,
        credentials: Credentials | None = None,
        identity_check: IdentityCheck | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.settings = settings
        self.meter = Meter(metrics)
        self.cache = Cache()
        self._cluster = cluster
        self._watch = watch
        self._identity_check = identity_check
        self._clock = time.monotonic
        ledger, heartbeat = Ledger(self._clock), Heartbeat(self._clock)
        context = Context(
            store=store,
            cluster=cluster,
            cache=self.cache,
            ledger=ledger,
            settings=settings,
            random_hex=secrets.token_hex,
            credentials=credentials or self._configured_dsn,
            reach=armed(os.environ),
            meter=self.meter,
        )
        self._observer = Observer(context, heartbeat, lambda: datetime.now(UTC))
        self._observer.identity_verified = identity_check is None
        self.reconciler = Reconciler(self._observer)
        self.queue = WorkQueue(
            clock=self._clock,
            call_later=lambda delay, call: asyncio.get_running_loop().call_later(delay, call),
            jitter=random.random,
        )
        self._poll = Poll(
            store, self.queue, heartbeat, self._clock, settings.installation, settings.poll
        )
        self._resync = Resync(
            store=store,
            cluster=cluster,
            cache=self.cache,
            ledger=ledger,
            queue=self.queue,
            reconciler=self.reconciler,
            settings=settings,
            clock=self._clock,
            jitter=random.random,
        )
        self._gate = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether all caches are synced and work is being done."""
        return self._gate.is_set()

    def wake(self, key: ObjectKey) -> None:
        """A run was seen: look at it, unless it is finished and nothing about it has changed."""
        if not self.reconciler.settled(key):
            self.queue.add(key)

    def measure(self) -> None:
        """Bring the gauges up to date; whoever serves the metrics calls it."""
        self.meter.survey(len(self.queue), self.cache.runs)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop. Pods live on; whoever starts next goes on from the facts.

        Stopping in the middle of a reconcile is as good as a crash there: harmless.
        """
        try:
            async with asyncio.TaskGroup() as group:
                endless = [group.create_task(self._work()) for _ in range(self.settings.workers)]
                endless.append(group.create_task(self._feed(stop)))
                for part in self._parts(stop):
                    group.create_task(part)
                await self._open_gate(stop)
                await stop.wait()
                for task in endless:
                    task.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        finally:
            stop.set()
            self.queue.close()

    def _parts(self, stop: asyncio.Event) -> list[Coroutine[None, None, None]]:
        """What ends by itself when told to stop. The watch is last (see above)."""
        parts = [self._poll.run(stop), self._after_gate(self._resync.run, stop)]
        if self._identity_check is not None:
            parts.append(self._check_identity(self._identity_check, stop))
        if self._watch is not None:
            parts.append(self._watch(self, stop))
        return parts

    async def _open_gate(self, stop: asyncio.Event) -> None:
        """Lists of our own, because nothing says when the watches have delivered theirs."""
        for key in await self._load(stop):
            self.queue.add(key)
        for run in self.cache.runs:
            self.wake(object_key(run))
        self._gate.set()

    async def _load(self, stop: asyncio.Event) -> set[ObjectKey]:
        """Complete lists, however many tries that takes; the runs that something disappeared from."""
        while True:
            try:
                return await load(self._cluster, self.cache)
            except AgentRunError as error:
                log.warning("cannot list, will be tried again: %s", error)
            if await pause(stop, LOAD_RETRY_SECONDS):
                return set()

    async def _after_gate(
        self, part: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event
    ) -> None:
        await self._gate.wait()
        await part(stop)

    async def _work(self) -> None:
        await self._gate.wait()
        while not told_to_end():
            key = await self.queue.get()
            try:
                await self._one(key)
            finally:
                self.queue.done(key)

    async def _one(self, key: ObjectKey) -> None:
        """One reconcile. An error of one run must not stop the work on the others."""
        began = self._clock()
        try:
            wait = await self.reconciler.reconcile(key)
        except AgentRunError as error:
            self.meter.failed(error)
            level = logging.WARNING if error.retryable else logging.ERROR
            log.log(level, "run %s will be tried again: %s", key, error)
            self.queue.retry(key)
        except Exception:
            log.exception("run %s will be tried again", key)
            self.queue.retry(key)
        else:
            self.queue.forget(key)
            if wait is not None:
                self.queue.add_after(key, wait)
        finally:
            self.meter.reconciled(self._clock() - began)

    async def _feed(self, stop: asyncio.Event) -> None:
        """The local adapter's changes; in a cluster there are none, Kopf feeds instead."""
        async for key in self._cluster.changes():
            if told_to_end():
                return
            for each in await self._load(stop) | {key}:
                self.queue.add(each)

    async def _check_identity(self, check: IdentityCheck, stop: asyncio.Event) -> None:
        """At start and from time to time; without an answer the last one stands."""
        while not stop.is_set():
            wait = IDENTITY_CHECK_SECONDS
            try:
                self._verified(await check())
            except AgentRunError as error:
                log.warning("cannot check who decides approvals: %s", error)
                wait = IDENTITY_RETRY_SECONDS
            if await pause(stop, wait):
                return

    def _verified(self, verified: bool) -> None:
        if not verified:
            log.warning("the API server takes forged decisions: approvals are not acted upon")
        if verified == self._observer.identity_verified:
            return
        self._observer.identity_verified = verified
        for run in self.cache.runs:
            self.wake(object_key(run))

    async def _configured_dsn(self, _namespace_uid: str) -> str:
        return self.settings.runner_dsn
