"""Time, as the runner uses it: durations on a clock that counts suspend, never the wall.

The wall clock appears in log lines and spans only. Tests shift it to show that nothing else changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

NANO = 10**9


def boottime() -> float:
    """Seconds on a clock that goes on while the machine sleeps (DESIGN section 6.4)."""
    which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(which)


@dataclass(frozen=True, slots=True)
class Clock:
    """What the runner's modules are given instead of ``time`` and ``asyncio.sleep``."""

    now: Callable[[], float] = boottime
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def shift_wall(offset: float) -> None:
    """Tests only: this process believes that the wall clock is ``offset`` seconds off."""
    true_time, true_time_ns = time.time, time.time_ns
    time.time = lambda: true_time() + offset
    time.time_ns = lambda: true_time_ns() + int(offset * NANO)
