"""Boundaries on their way into the store, in the order in which they were folded.

A boundary is handed to the store once everything it depends on has landed: what was in the record
when its step began. Parallel calls do not depend on each other, so their results travel together; a
round is closed only after its results are there. If the store refuses one for good, nothing that
builds on it can have been written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from agentrun.run.values import LastWord
from agentrun.runner.clock import Clock
from agentrun.runner.observer import Observer
from agentrun.store.port import NewCommit, RunnerStore
from agentrun.store.rows import TotalsRow


@dataclass(slots=True, eq=False)
class Entry:
    """One boundary. ``after`` is the last number that has to land before it is handed over."""

    number: int
    after: int
    strict: bool
    commit: NewCommit
    totals: TotalsRow
    end: LastWord | None
    payload: int
    submitted_at: float
    then: Callable[[], None] | None = None
    """Called when it has landed."""
    landed: asyncio.Event = field(default_factory=asyncio.Event)


class Tail:
    """What is folded and not yet known to be durable. Numbers count boundaries of this attempt."""

    def __init__(
        self,
        store: RunnerStore,
        clock: Clock,
        observer: Observer,
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._observer = observer
        self._changed = changed
        self.on_landed: Callable[[Entry, int], None] | None = None
        self._waiting: deque[Entry] = deque()
        self._open: dict[int, Entry] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.submitted = 0
        self.failure: Exception | None = None

    @property
    def idle(self) -> bool:
        """Everything submitted has landed."""
        return not self._open

    @property
    def landed_through(self) -> int:
        """Every boundary up to this number is durable."""
        return min(self._open) - 1 if self._open else self.submitted

    @property
    def strict_open(self) -> bool:
        """Whether a boundary that nothing may overtake has not landed."""
        return any(entry.strict for entry in self._open.values())

    def submit(
        self,
        commit: NewCommit,
        totals: TotalsRow,
        *,
        after: int,
        strict: bool,
        payload: int = 0,
        end: LastWord | None = None,
        then: Callable[[], None] | None = None,
    ) -> Entry:
        """Queue a boundary. Nothing overtakes it."""
        self.submitted += 1
        now = self._clock.now()
        entry = Entry(self.submitted, after, strict, commit, totals, end, payload, now, then)
        self._open[entry.number] = entry
        self._waiting.append(entry)
        self._hand_over()
        return entry

    def fail(self, error: Exception) -> None:
        """Nothing more can be written; the first reason counts."""
        self.failure = self.failure or error
        self._observer.store_error(error)
        self._changed()

    def give_up(self) -> None:
        """Expect nothing of what was submitted: it was refused, or may build on what was. What is
        with the store already may still land; it does not build on the rest."""
        self.failure = None
        self._waiting.clear()
        self._open.clear()

    async def close(self) -> None:
        """Stop waiting for the store. What lands meanwhile is the record's, not ours to know."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)

    def _hand_over(self) -> None:
        while self._waiting and self._waiting[0].after <= self.landed_through:
            entry = self._waiting.popleft()
            task = asyncio.create_task(self._append(entry), name=f"append {entry.commit.kind}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _append(self, entry: Entry) -> None:
        try:
            seq = await self._store.append(entry.commit, entry.totals, end=entry.end)
        except Exception as error:  # noqa: BLE001 - kept for the loop, which decides what it means
            if entry.number in self._open:
                self.fail(error)
            return
        self._open.pop(entry.number, None)
        seconds = self._clock.now() - entry.submitted_at
        size = len(entry.commit.body)
        self._observer.landed(entry.commit.kind, seq, seconds, entry.payload, size)
        if self.on_landed is not None:
            self.on_landed(entry, seq)
        entry.landed.set()
        if entry.then is not None:
            entry.then()
        if self.failure is None:
            self._hand_over()
        self._changed()
