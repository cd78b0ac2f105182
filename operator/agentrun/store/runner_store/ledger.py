"""What waits to become durable, what may already be, and what is: no I/O, no clock.

One statement is in flight at a time (H19). A statement whose answer was lost may have landed, or
may still land: its write id is remembered until the run row tells. All unresolved statements start
from the same seq, so at most one of them ever lands; it holds a prefix of what waits, and the rest
is sent again from the new seq (H69).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from agentrun.errors import StoreError
from agentrun.run.values import LastWord
from agentrun.store.port import NewCommit
from agentrun.store.rows import TotalsRow

MAX_ROWS = 64
MAX_BYTES = 4 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Entry:
    """One commit that waits. ``done`` is told its seq, or the error that it came to."""

    commit: NewCommit
    totals: TotalsRow
    end: LastWord | None
    queued_at: float
    done: Callable[[int | StoreError], Any]
    blobs_put: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """One statement's worth of entries, sent as ``write_id`` on top of ``base``."""

    write_id: UUID
    base: int
    entries: tuple[Entry, ...]


@dataclass(slots=True)
class Ledger:
    """The queue of appends of one attempt. Used by the store thread only, except ``oldest``."""

    new_id: Callable[[], UUID]
    seq: int = 0
    """Last seq known to be durable; the base of the next statement."""
    waiting: list[Entry] = field(default_factory=list)
    unresolved: dict[UUID, Group] = field(default_factory=dict)
    _rows: int = MAX_ROWS

    def take(self) -> tuple[Entry, ...]:
        """The entries that go into the next statement, in call order.

        A last commit closes its group: nothing can follow it in the same statement.
        """
        taken: list[Entry] = []
        size = 0
        for entry in self.waiting[: self._rows]:
            size += len(entry.commit.body)
            if taken and size > MAX_BYTES:
                break
            taken.append(entry)
            if entry.end is not None:
                break
        return tuple(taken)

    def send(self, entries: Sequence[Entry]) -> Group:
        """Number a statement, to be remembered until it is resolved."""
        group = Group(self.new_id(), self.seq, tuple(entries))
        self.unresolved[group.write_id] = group
        return group

    def landed(self, group: Group) -> None:
        """The statement took effect: its entries are durable, no other unresolved one can be."""
        self.seq = group.base + len(group.entries)
        del self.waiting[: len(group.entries)]
        self.unresolved.clear()
        self._rows = MAX_ROWS
        for offset, entry in enumerate(group.entries, start=1):
            entry.done(group.base + offset)

    def refused(self, group: Group, error: StoreError) -> None:
        """The statement was refused for good. Halve the group until the culprit stands alone."""
        del self.unresolved[group.write_id]
        if len(group.entries) > 1:
            self._rows = len(group.entries) // 2
            return
        self.drop(group.entries[0], error)

    def drop(self, entry: Entry, error: StoreError) -> None:
        """Give up one entry that waits; the others go on."""
        self.waiting.remove(entry)
        self._rows = MAX_ROWS
        entry.done(error)

    def fail(self, error: StoreError) -> None:
        """Nothing will ever be written any more."""
        waiting, self.waiting = self.waiting, []
        self.unresolved.clear()
        for entry in waiting:
            entry.done(error)

    def oldest(self) -> float | None:
        """When the oldest waiting entry was queued."""
        try:
            return self.waiting[0].queued_at
        except IndexError:
            return None
