"""The keyed work queue, by client-go's three rules.

A key is never worked on twice at once; keys added meanwhile are worked on once more afterwards;
failures come back with exponential back-off and jitter per key, under one rate for all. A delayed
add wakes a key at its nearest deadline.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from agentrun.cluster.values import ObjectKey


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Not any more."""


CallLater = Callable[[float, Callable[[], None]], Timer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How failures are spread: per key base x 2^n within the cap, and so many a second for all."""

    base: float = 0.2
    cap: float = 60.0
    per_second: float = 20.0
    burst: float = 100.0


@dataclass(slots=True)
class _Bucket:
    """Tokens of the common rate; what is missing is waited for."""

    pace: Pace
    clock: Callable[[], float]
    tokens: float = field(init=False)
    at: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens, self.at = self.pace.burst, self.clock()

    def wait(self) -> float:
        now = self.clock()
        refill = (now - self.at) * self.pace.per_second
        self.tokens = min(self.pace.burst, self.tokens + refill) - 1
        self.at = now
        return max(-self.tokens, 0.0) / self.pace.per_second


@dataclass(frozen=True, slots=True)
class _Wake:
    at: float
    timer: Timer


class WorkQueue:
    """Keys to be reconciled. ``get`` must be followed by ``done`` for the same key."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        call_later: CallLater,
        jitter: Callable[[], float],
        pace: Pace | None = None,
    ) -> None:
        self._clock, self._call_later, self._jitter = clock, call_later, jitter
        self._pace = pace or Pace()
        self._bucket = _Bucket(self._pace, clock)
        self._ready: deque[ObjectKey] = deque()
        self._dirty: set[ObjectKey] = set()
        self._working: set[ObjectKey] = set()
        self._failures: dict[ObjectKey, int] = {}
        self._wakes: dict[ObjectKey, _Wake] = {}
        self._something = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: ObjectKey) -> None:
        """Now, or right after the work that is being done on it."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._push(key)

    def add_after(self, key: ObjectKey, delay: float) -> None:
        """Once ``delay`` is over; of several the nearest counts."""
        if delay <= 0:
            self.add(key)
            return
        at = self._clock() + delay
        known = self._wakes.get(key)
        if known is not None:
            if known.at <= at:
                return
            known.timer.cancel()
        self._wakes[key] = _Wake(at, self._call_later(delay, lambda: self._wake(key)))

    def retry(self, key: ObjectKey) -> None:
        """After a failure. Half of the back-off is random, so that a crowd spreads out."""
        step = self._failures.get(key, 0)
        self._failures[key] = step + 1
        full = min(self._pace.base * 2.0 ** min(step, 30), self._pace.cap)
        own = full * (0.5 + 0.5 * self._jitter())
        self.add_after(key, max(own, self._bucket.wait()))

    def forget(self, key: ObjectKey) -> None:
        """After a success: the next failure starts from the base again."""
        self._failures.pop(key, None)

    async def get(self) -> ObjectKey:
        """The next key, which is ours until ``done``."""
        while not self._ready:
            self._something.clear()
            await self._something.wait()
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def done(self, key: ObjectKey) -> None:
        """The work on a key is over; what was added meanwhile is next."""
        self._working.discard(key)
        if key in self._dirty:
            self._push(key)

    def close(self) -> None:
        """Cancel all delayed adds."""
        for wake in self._wakes.values():
            wake.timer.cancel()
        self._wakes.clear()

    def _wake(self, key: ObjectKey) -> None:
        self._wakes.pop(key, None)
        self.add(key)

    def _push(self, key: ObjectKey) -> None:
        self._ready.append(key)
        self._something.set()
