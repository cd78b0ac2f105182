"""The clock of leases."""

from __future__ import annotations

import time


def boottime() -> float:
    """Seconds on a clock that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
