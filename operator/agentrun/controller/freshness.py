"""Watches over the store from this process's side: when it last answered, and when it did not.

After an outage every lease is expired; after a restart nobody knows what was before. So each stretch
without an answer is remembered for as long as the longest lease (H15, H70).
"""

from __future__ import annotations

from collections.abc import Callable

from agentrun.controller.world import Freshness, Gap

LONGEST_LEASE = 3600.0


class Heartbeat:
    """Successful polls on a monotonic clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start = clock()
        self._last: float | None = None
        self._gaps: list[tuple[float, float]] = []

    def polled(self) -> None:
        """The store has answered."""
        now = self._clock()
        if self._last is not None:
            self._remember(now - self._last, now)
        self._last = now

    def _remember(self, length: float, end: float) -> None:
        """Keep a gap; earlier ones that are no longer add nothing, old ones matter to no lease.

        What stays grows shorter from oldest to newest, so the list is short.
        """
        self._gaps = [
            (known, ended)
            for known, ended in self._gaps
            if known > length and end - ended < LONGEST_LEASE
        ]
        self._gaps.append((length, end))

    def freshness(self, *, synced: bool) -> Freshness:
        """As durations up to now."""
        now = self._clock()
        return Freshness(
            synced=synced,
            since_start=now - self._start,
            since_poll=None if self._last is None else now - self._last,
            gaps=tuple(Gap(length, now - ended) for length, ended in self._gaps),
        )
