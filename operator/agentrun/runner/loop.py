"""The driver: ask what may run, start it, wait until something changed, ask again.

One turn is one look at everything: failures, what the operator wants, the signal to go, what the
servers offer, and the steps. A turn never waits; what takes time is in flight or in the tail.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from agentrun.errors import StoreError
from agentrun.run import boundaries
from agentrun.run.next_steps import next_steps
from agentrun.run.steps import CallModel, Finish, OfferTools, RefuseCall, RunTool, Step, Suspend
from agentrun.run.values import Intent, Limits
from agentrun.runner.attempt import Attempt
from agentrun.runner.call_model import call_model
from agentrun.runner.exits import Ending, Exit
from agentrun.runner.in_flight import OUTSIDE, conversation_of
from agentrun.runner.offer_tools import offer_tools
from agentrun.runner.ready_servers import ReadyServers
from agentrun.runner.run_tool import run_tool
from agentrun.runner.shutdown import Shutdown
from agentrun.runner.snapshots import Snapshots


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. ``tick`` bounds a turn's wait. A commit is waited for ``patience`` before the run
    goes on without it (where it may). ``settle`` bounds the wait for aborted work (H27)."""

    tick: float = 0.5
    patience: float = 10.0
    settle: float = 10.0

    @classmethod
    def of(cls, ttl: float) -> Pace:
        """One statement of the store may take a sixth of the TTL."""
        return cls(tick=min(0.5, ttl / 12), patience=ttl / 6)


class Loop:
    """Runs an attempt to its end. ``wake`` is set by whatever changes."""

    def __init__(
        self, attempt: Attempt, snapshots: Snapshots, pace: Pace, wake: asyncio.Event
    ) -> None:
        self._attempt = attempt
        self._snapshots = snapshots
        self._pace = pace
        self._wake = wake
        self._servers = ReadyServers(attempt, wake.set)
        self._shutdown = Shutdown(attempt, pace.settle)
        self._requested = ("run", "")
        self._asked: tuple[int, Intent] | None = None
        self._steps: tuple[Step, ...] = ()
        self._woken = True

    async def run(self) -> Ending:
        """The attempt, from its restored state to an ending. Nothing is committed after it returns."""
        listening = asyncio.create_task(self._listen(), name="listen")
        try:
            while (ending := self._turn()) is None:
                await self._pause()
            return ending
        finally:
            self._attempt.cancelling = True
            listening.cancel()
            await self._servers.close()
            await self._snapshots.close()
            await self._attempt.flight.close(patience=1.0)
            await self._attempt.tail.close()

    def _turn(self) -> Ending | None:
        attempt = self._attempt
        if self._woken or attempt.flight.within_timeout(attempt.clock.now()):
            attempt.store.mark_progress()
        if (ending := self._shutdown.forced()) is not None:
            return ending
        if self._shutdown.begun:
            return None
        intent = self._intent()
        self._shutdown.stop_work(intent)
        for boundary in self._servers.differences():
            attempt.commit(boundary)
        steps = self._settle(intent)
        if self._shutdown.leave(steps):
            return None
        self._start(steps)
        if attempt.tail.idle:
            self._snapshots.take(attempt.state)
            if attempt.drain.begun and not len(attempt.flight):
                return Ending(Exit.DRAINED)
        return None

    async def _pause(self) -> None:
        """Until something changed, or a tick for what changes by itself."""
        try:
            async with asyncio.timeout(self._pace.tick):
                await self._wake.wait()
            self._woken = True
        except TimeoutError:
            self._woken = False
        self._wake.clear()

    async def _listen(self) -> None:
        """Wake up for what a renewal or an append is told; what it is, the next turn sees."""
        with contextlib.suppress(StoreError):
            known = self._attempt.store.control()
            while True:
                known = await self._attempt.store.control_changed(known)
                self._wake.set()
        self._wake.set()

    def _intent(self) -> Intent:
        control = self._attempt.store.control()
        requested = (control.requested.value, control.requested_reason)
        if requested != self._requested:
            self._requested = requested
            self._attempt.observer.requested(*requested)
        budgets = control.budgets
        return Intent(*requested, Limits(budgets.turns, budgets.tokens, budgets.cost))

    def _settle(self, intent: Intent) -> tuple[Step, ...]:
        """Commit the steps that need no I/O until only others are left; those are returned.

        State changes by commits alone, so without one the last answer still holds. A call that is
        under way is not refused meanwhile: what its server says is its result.
        """
        attempt = self._attempt
        while self._asked != (attempt.tail.submitted, intent):
            self._asked = (attempt.tail.submitted, intent)
            steps = next_steps(attempt.state, attempt.spec, intent)
            self._steps = tuple(step for step in steps if not self._under_way(step))
            for step in self._steps:
                if not isinstance(step, (*OUTSIDE, Suspend, Finish)):
                    attempt.commit(boundaries.settle(step, attempt.state, attempt.spec))
            if len(self._steps) < len(steps) and self._asked[0] == attempt.tail.submitted:
                self._asked = None  # it may end without a commit: ask again at the next turn
                break
        return self._steps

    def _under_way(self, step: Step) -> bool:
        return isinstance(step, RefuseCall) and RunTool(step.call, 0) in self._attempt.flight

    def _start(self, steps: tuple[Step, ...]) -> None:
        attempt = self._attempt
        fresh = [step for step in steps if isinstance(step, OUTSIDE) and step not in attempt.flight]
        if not fresh or not self._may_start():
            return
        if not self._servers.begun and self._servers.begin():
            self._wake.set()
            return
        busy = attempt.flight.conversations()
        for step in fresh:
            path = conversation_of(step)
            full = path not in busy and len(busy) >= attempt.spec.limits.max_concurrency
            if (path is not None and full) or self._held(step):
                continue
            if path is not None:
                busy.add(path)
            attempt.flight.start(step, self._work(step))

    def _may_start(self) -> bool:
        """Whether anything may leave this process now.

        Normally once everything is durable. While the store is away, results may wait and the run
        goes on, as long as the lease reaches and nothing strict is among them.
        """
        attempt = self._attempt
        if not attempt.may_send():
            return False
        if attempt.tail.idle:
            return True
        waited = attempt.store.uncommitted_age() >= self._pace.patience
        return attempt.patient and waited and not attempt.tail.strict_open

    def _held(self, step: Step) -> bool:
        return isinstance(step, RunTool) and self._servers.holds(step)

    def _work(self, step: Step) -> Coroutine[Any, Any, None]:
        after = self._attempt.tail.submitted
        if isinstance(step, CallModel):
            return call_model(self._attempt, step)
        if isinstance(step, RunTool):
            return run_tool(self._attempt, self._servers, step, after)
        assert isinstance(step, OfferTools)
        return offer_tools(self._attempt, self._servers, step, after)
