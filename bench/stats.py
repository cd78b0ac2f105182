"""Times as lists of seconds, and what is said of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Json = dict[str, Any]


def timed(work: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def quantile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the others do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summary(seconds: Sequence[float]) -> Json:
    """What the tables show of a sample, in milliseconds."""
    return {
        "n": len(seconds),
        "p50_ms": ms(statistics.median(seconds)),
        "p99_ms": ms(quantile(seconds, 0.99)),
        "mean_ms": ms(statistics.fmean(seconds)),
    }


def ms(seconds: float) -> float:
    """Milliseconds, to the microsecond."""
    return round(seconds * 1000, 3)


def ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """Median against median."""
    return round(statistics.median(these) / statistics.median(those), 2)


def quiet(these: Sequence[float], those: Sequence[float]) -> float:
    """Tenth percentile against tenth percentile: the machine's undisturbed moments."""
    return round(quantile(these, 0.1) / quantile(those, 0.1), 2)


def spread(rounds: Iterable[tuple[Sequence[float], Sequence[float]]]) -> list[float]:
    """The least, middle and largest :func:`ratio` of several rounds: how noisy it was."""
    ratios = sorted(ratio(these, those) for these, those in rounds)
    return [ratios[0], round(statistics.median(ratios), 2), ratios[-1]]
