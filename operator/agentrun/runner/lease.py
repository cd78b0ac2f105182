"""How far this attempt's hold on the run reaches, by its own clock.

Safety comes from the fence alone. These limits keep a pod that cannot be heard from starting effects
that its successor may repeat.
"""

from __future__ import annotations

from agentrun.store.port import RunnerStore


class Lease:
    """Ages that the store reports, against the TTL and the time after which an attempt gives up."""

    def __init__(self, store: RunnerStore, *, ttl: float, stall: float) -> None:
        self._store = store
        self.ttl = ttl
        self.stall = max(stall, ttl)
        """A healthy lease is a third of the TTL old between renewals, however short the stall."""

    @property
    def reach(self) -> float:
        """Two thirds of the TTL: no call starts later than this after the last answer."""
        return self.ttl * 2 / 3

    def may_call(self) -> bool:
        """Whether a model or tool call may leave now: heard lately, nothing old uncommitted (H2)."""
        return self._store.lease_age() <= self.reach and self._store.uncommitted_age() <= self.reach

    def tail_old(self) -> bool:
        """Whether what is uncommitted has waited too long."""
        return self._store.uncommitted_age() > self.reach

    def lost(self) -> bool:
        """No answer, or no commit, for so long that another attempt should try."""
        return max(self._store.lease_age(), self._store.uncommitted_age()) > self.stall
