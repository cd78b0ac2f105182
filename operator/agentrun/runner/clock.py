"""Time, as the runner uses it: durations on a clock that counts suspend, never the wall.

The wall clock appears in log lines and spans only. Tests shift it to show that nothing else changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentrun.store.boottime import boottime

NANO = 10**9


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
