"""SIGTERM: how long is left, and since when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentrun.runner.clock import Clock

T = TypeVar("T")
MARGIN = 3.0
"""Seconds kept for committing, releasing and leaving, or a third of a short grace period."""


class Drained(Exception):
    """SIGTERM came while the attempt was still starting."""


class Drain:
    """Begins once, on the first signal; later ones change nothing."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._clock = clock
        self.grace = grace
        """Seconds between SIGTERM and SIGKILL; changes nothing once it began."""
        self._deadline: float | None = None
        self._began = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    @property
    def begun(self) -> bool:
        """Whether the pod is asked to go."""
        return self._deadline is not None

    @property
    def over(self) -> bool:
        """Whether the time for finishing things is used up."""
        return self._deadline is not None and self._clock.now() >= self._deadline

    @property
    def margin(self) -> float:
        """Seconds that remain after the deadline, for leaving."""
        return min(MARGIN, self.grace / 3)

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return 0.0 if self._deadline is None else max(0.0, self._deadline - self._clock.now())

    def begin(self) -> None:
        """The signal's handler."""
        if self._deadline is None:
            self._deadline = self._clock.now() + self.grace - self.margin
            self._began.set()
            for listener in self._listeners:
                listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this when it begins."""
        self._listeners.append(listener)

    async def unless(self, work: Awaitable[T]) -> T:
        """The result of ``work``, or Drained if the signal comes first (work is then cancelled)."""
        task = asyncio.ensure_future(work)
        signal = asyncio.ensure_future(self._began.wait())
        try:
            await asyncio.wait((task, signal), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Drained
            return task.result()
        finally:
            signal.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,), timeout=self.margin)
