"""An attempt from its claim to its ending: claim, restore, loop, and what each error means.

What this needs of the world comes in as :class:`World`, so that tests run whole attempts in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from agentrun.api import AgentRunSpec, Reason
from agentrun.errors import AgentRunError, CheckpointCorrupt, StoreError, StoreUnavailable
from agentrun.run import codec
from agentrun.run.capture import captured_spec
from agentrun.run.records import RunEnd, progress
from agentrun.run.values import LastWord
from agentrun.runner import failpoints
from agentrun.runner.attempt import Attempt, totals_row
from agentrun.runner.clock import Clock
from agentrun.runner.drain import Drain, Drained
from agentrun.runner.exits import Ending, Exit, ending_of
from agentrun.runner.in_flight import StepsInFlight
from agentrun.runner.lease import Lease
from agentrun.runner.loop import Loop, Pace
from agentrun.runner.model.port import Model
from agentrun.runner.observer import Observer
from agentrun.runner.restore import Resumed, Untrusted, restore
from agentrun.runner.snapshots import Snapshots
from agentrun.runner.tail import Tail
from agentrun.runner.tools.port import ToolServers
from agentrun.store.port import Claim, NewCommit, RunnerStore
from agentrun.store.rows import RunState

T = TypeVar("T")
DEFAULT_STALL = 900.0
"""Seconds: the default of lease.stallSeconds, and how long a claim is tried while the store is away."""
RETRY = 1.0


class Models(Protocol):
    """The models of a run's agents."""

    def of(self, agent: str) -> Model:
        """The model of an agent; InvalidSpec when it cannot be opened."""
        ...

    async def close(self) -> None:
        """Close those that were opened."""
        ...


class Adapters(Protocol):
    """How an attempt reaches the world once its spec is known."""

    def preload(self, spec: AgentRunSpec | None) -> None:
        """Start importing what the attempt will need; without a spec, what every attempt needs."""
        ...

    def models(
        self, spec: AgentRunSpec, may_send: Callable[[], bool], progress: Callable[[], None]
    ) -> Models:
        """The models. ``may_send`` is asked before each try, ``progress`` told of a live stream."""
        ...

    def tools(self, spec: AgentRunSpec) -> ToolServers:
        """The tool servers."""
        ...


async def in_thread(work: Callable[[], Any]) -> Any:
    """Run beside the event loop."""
    return await asyncio.to_thread(work)


@dataclass(frozen=True, slots=True)
class World:
    """Everything around an attempt."""

    store: RunnerStore
    """Opened for the default stallSeconds."""
    reopen: Callable[[float], RunnerStore]
    """The same hold again, for other stallSeconds. The process nonce makes its claim ours (H17)."""
    adapters: Adapters
    clock: Clock
    drain: Drain
    observer: Observer
    offload: Callable[[Callable[[], Any]], Awaitable[Any]] = in_thread
    pace: Callable[[float], Pace] = Pace.of
    grace_of_spec: bool = True
    """Whether the spec says how long the grace period is; else ``drain`` knows."""


async def live(world: World) -> Ending:
    """Run one attempt; every error is an ending. The store is closed, whatever happens."""
    try:
        ending = await _held(world)
    except Drained:
        ending = Ending(Exit.DRAINED)
    except Exception as error:  # noqa: BLE001 - a bug is an ending too, and is told as one
        world.observer.failed(error)
        ending = ending_of(error)
    finally:
        await world.store.close()
    world.observer.ended(ending)
    return ending


async def _held(world: World) -> Ending:
    store = world.store
    world.adapters.preload(None)
    failpoints.reach(failpoints.BEFORE_CLAIM)
    claim = await world.drain.unless(_patiently(world, store.claim))
    failpoints.reach(failpoints.AFTER_CLAIM)
    world.observer.claimed(claim)
    spec = captured_spec(claim.spec, claim.spec_hash)
    world.adapters.preload(spec)
    if world.grace_of_spec:
        world.drain.grace = float(spec.pod.termination_grace_period_seconds)
    async with _watching(world, spec) as watched:
        try:
            return await _claimed(watched, claim, spec)
        except Drained:
            await _release(watched)
            raise


@asynccontextmanager
async def _watching(world: World, spec: AgentRunSpec) -> AsyncIterator[World]:
    """The world with a store that stops renewing when the spec says so.

    A store is told at its opening, and the spec is known only after the claim; so for any other than
    the default it is opened again.
    """
    stall = float(spec.lease.stall_seconds)
    if stall == DEFAULT_STALL:
        yield world
        return
    await world.store.close()
    again = replace(world, store=world.reopen(stall))
    try:
        await again.drain.unless(_patiently(again, again.store.claim))
        yield again
    finally:
        await again.store.close()


async def _claimed(world: World, claim: Claim, spec: AgentRunSpec) -> Ending:
    try:
        started = world.clock.now()
        resumed = await world.drain.unless(
            _patiently(world, lambda: restore(world.store, claim, world.offload))
        )
        seconds = world.clock.now() - started
        world.observer.restored(resumed.state, resumed.commits, resumed.snapshot_seq, seconds)
        return await _looped(world, claim, spec, resumed)
    except Untrusted as error:
        return await _distrust(world, error)


async def _looped(world: World, claim: Claim, spec: AgentRunSpec, resumed: Resumed) -> Ending:
    wake = asyncio.Event()
    world.drain.listen(wake.set)
    store, observer = world.store, world.observer
    ttl = claim.lease_ttl_ms / 1000
    lease = Lease(store, ttl=ttl, stall=float(spec.lease.stall_seconds))
    tail = Tail(store, world.clock, observer, wake.set)
    snapshots = Snapshots(
        store, observer, resumed.growth, resumed.known_blobs, world.offload, tail.fail
    )
    tail.on_landed = lambda entry, seq: snapshots.landed(seq, len(entry.commit.body))
    tools = world.adapters.tools(spec)
    attempt: Attempt

    def may_send() -> bool:
        return attempt.may_send()

    models = world.adapters.models(spec, may_send, store.mark_progress)
    attempt = Attempt(
        spec=spec,
        state=resumed.state,
        store=store,
        model=models.of,
        tools=tools,
        clock=world.clock,
        observer=observer,
        lease=lease,
        drain=world.drain,
        tail=tail,
        flight=StepsInFlight(lambda step: wake.set()),
        known_blobs=resumed.known_blobs,
    )
    try:
        ending = await Loop(attempt, snapshots, world.pace(ttl), wake).run()
        if ending.code is Exit.DRAINED:
            await _release(world)
        return ending
    except CheckpointCorrupt as error:
        raise Untrusted(error, resumed.state.totals) from error
    finally:
        await _bounded(models.close())
        await _bounded(tools.close())


async def _patiently(world: World, work: Callable[[], Awaitable[T]]) -> T:
    """``work`` again while the store is away, as long as any attempt would wait for it."""
    started = world.clock.now()
    while True:
        try:
            return await work()
        except StoreUnavailable as error:
            world.observer.store_error(error)
            if world.clock.now() - started > DEFAULT_STALL:
                raise
        await world.clock.sleep(RETRY)


async def _distrust(world: World, error: Untrusted) -> Ending:
    """The record's bytes are whole and their meaning is not: the run fails, nothing is executed.

    A newer record is only not for this image to read.
    """
    ending = ending_of(error.cause)
    if not isinstance(error.cause, CheckpointCorrupt):
        return ending
    end = RunEnd(outcome="Failed", reason=Reason.CHECKPOINT_CORRUPT, message=ending.message[:500])
    encoded = codec.encode((end,))
    commit = NewCommit("run/end", None, encoded.codec, encoded.body, progress((end,)))
    state = LastWord(RunState.FAILED, end.reason, end.message)
    try:
        async with asyncio.timeout(DEFAULT_STALL):
            await world.store.append(commit, totals_row(error.sums), end=state)
    except (StoreError, TimeoutError):
        return ending
    return Ending(Exit.FAILED, ending.reason, ending.message)


async def _release(world: World) -> None:
    """Let the next attempt start at once; a store that does not answer costs it the lease's rest."""
    try:
        async with asyncio.timeout(world.drain.margin):
            await world.store.release()
    except (StoreError, TimeoutError) as error:
        world.observer.store_error(error)


async def _bounded(closing: Awaitable[None]) -> None:
    """An adapter that does not close must not keep the pod."""
    try:
        async with asyncio.timeout(RETRY):
            await closing
    except (TimeoutError, AgentRunError):
        return
