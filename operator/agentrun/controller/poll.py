"""The progress poll: live rows, compared with the last look, wake the runs that have changed.

What a person would notice (owner, state, what is requested, an expired lease, a new question) is
looked at at once; mere progress at most once in ten seconds, because it is not shown more often.
LISTEN may come as a hint one day; nothing depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agentrun.cluster.values import ObjectKey
from agentrun.controller.freshness import Heartbeat
from agentrun.controller.pause import pause
from agentrun.controller.queue import WorkQueue
from agentrun.controller.status import PROGRESS_PATCH_SECONDS
from agentrun.errors import StoreError
from agentrun.store.port import OperatorStore
from agentrun.store.rows import RunRow

log = logging.getLogger(__name__)

FASTEST = 0.2
"""The shortest lease (3 s) is polled well within its third."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One row as the poll remembers it."""

    key: ObjectKey
    facts: tuple[object, ...]
    seq: int


def fingerprint(row: RunRow) -> Fingerprint:
    """What matters at once, and how far the run is."""
    facts = (
        row.fence,
        row.state,
        row.holder,
        row.requested,
        row.requested_reason,
        row.lease_expired,
        row.unasked,
    )
    return Fingerprint(ObjectKey(row.namespace, row.name), facts, row.seq)


@dataclass(frozen=True, slots=True)
class Changes:
    """Keys to be reconciled now, and those that have only progressed."""

    now: frozenset[ObjectKey] = frozenset()
    progressed: frozenset[ObjectKey] = frozenset()


def compare(before: dict[str, Fingerprint], after: dict[str, Fingerprint]) -> Changes:
    """What has changed between two looks. Runs that have left are no longer Active (pure)."""
    left = {old.key for uid, old in before.items() if uid not in after}
    changed = {
        new.key
        for uid, new in after.items()
        if (old := before.get(uid)) is None or old.facts != new.facts
    }
    progressed = {
        new.key
        for uid, new in after.items()
        if (old := before.get(uid)) is not None and old.seq != new.seq
    }
    now = frozenset(left | changed)
    return Changes(now, frozenset(progressed) - now)


def interval(rows: Iterable[RunRow], usual: float) -> float:
    """Often enough that a gap of a third of the shortest lease is an outage and not the rhythm."""
    shortest = min((row.lease_ttl_ms / 1000 for row in rows), default=usual * 6)
    return max(min(usual, shortest / 6), FASTEST)


@dataclass(slots=True)
class Poll:
    """The loop around ``compare``."""

    store: OperatorStore
    queue: WorkQueue
    heartbeat: Heartbeat
    clock: Callable[[], float]
    installation: str
    usual: float
    _before: dict[str, Fingerprint] = field(default_factory=dict)
    _woken: dict[ObjectKey, float] = field(default_factory=dict)

    async def once(self) -> tuple[RunRow, ...]:
        """One look. StoreError when the store does not answer; then nothing is concluded."""
        rows = await self.store.live(self.installation)
        self.heartbeat.polled()
        after = {row.run_uid: fingerprint(row) for row in rows}
        changes = compare(self._before, after)
        self._before = after
        for key in changes.now:
            self.queue.add(key)
        for key in changes.progressed:
            self._progressed(key)
        live = {known.key for known in after.values()}
        self._woken = {key: at for key, at in self._woken.items() if key in live}
        return rows

    def _progressed(self, key: ObjectKey) -> None:
        """Now if the last wake is long enough ago, else once it is; one wake covers what is between."""
        now = self.clock()
        last = self._woken.get(key)
        if last is not None and last > now:
            return
        due = now if last is None else max(last + PROGRESS_PATCH_SECONDS, now)
        self._woken[key] = due
        self.queue.add_after(key, due - now)

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop. An outage is said once, not at every look."""
        away = False
        wait = self.usual
        while not stop.is_set():
            try:
                rows = await self.once()
                wait = interval(rows, self.usual)
                if away:
                    log.warning("the store answers again")
                away = False
            except StoreError as error:
                if not away:
                    log.warning("the store does not answer: %s", error)
                away = True
            if await pause(stop, wait):
                return
