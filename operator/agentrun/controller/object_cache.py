"""A cache of one kind of object that survives relists.

Kopf keeps no store, so a deletion that happens while a watch is down gives no event. A fresh list
therefore also removes what it does not hold; but what was put or removed after the list was asked
for is newer than the list and stays as it is. Ticks order the two, not clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from agentrun.cluster.values import ObjectKey

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What an object cache must know about its objects. ``merge(old, new)`` is called for the same UID."""

    key: Callable[[T], ObjectKey]
    uid: Callable[[T], str]
    merge: Callable[[T, T], T]


class ObjectCache(Generic[T]):
    """Objects by key, each with the tick at which it was last touched."""

    def __init__(self, kind: Kind[T]) -> None:
        self._kind = kind
        self._tick = 0
        self._items: dict[ObjectKey, tuple[T, int]] = {}
        self._removed: dict[ObjectKey, tuple[str, int]] = {}

    def __iter__(self) -> Iterator[T]:
        return iter([item for item, _ in self._items.values()])

    def __len__(self) -> int:
        return len(self._items)

    def get(self, key: ObjectKey) -> T | None:
        """The object as last seen."""
        found = self._items.get(key)
        return found[0] if found is not None else None

    def mark(self) -> int:
        """Now, to be handed to :meth:`replace` with the list that is asked for next."""
        return self._tick

    def put(self, item: T) -> T:
        """Keep what was seen; an older version of the same object changes nothing, and what was
        removed never comes back: the answer to a write may be later than the object's end."""
        self._tick += 1
        key = self._kind.key(item)
        if self._removed_since(key, self._kind.uid(item), 0):
            return item
        old = self.get(key)
        if old is not None and self._kind.uid(old) == self._kind.uid(item):
            item = self._kind.merge(old, item)
        self._items[key] = (item, self._tick)
        return item

    def remove(self, key: ObjectKey, uid: str) -> T | None:
        """Forget the object, if it is still this one."""
        self._tick += 1
        self._removed[key] = (uid, self._tick)
        found = self.get(key)
        if found is None or self._kind.uid(found) != uid:
            return None
        del self._items[key]
        return found

    def replace(self, items: Iterable[T], mark: int) -> tuple[T, ...]:
        """Take over a complete list that was asked for at ``mark``; returns what it made disappear."""
        gone: list[T] = []
        listed: set[ObjectKey] = set()
        for item in items:
            key = self._kind.key(item)
            listed.add(key)
            old, touched = self._items.get(key, (None, 0))
            if touched > mark or self._removed_since(key, self._kind.uid(item), mark):
                continue
            if old is not None and self._kind.uid(old) != self._kind.uid(item):
                gone.append(old)
            self.put(item)
        for key, (item, touched) in list(self._items.items()):
            if touched <= mark and key not in listed:
                gone.append(item)
                del self._items[key]
        self._removed = {k: entry for k, entry in self._removed.items() if entry[1] > mark}
        return tuple(gone)

    def _removed_since(self, key: ObjectKey, uid: str, mark: int) -> bool:
        removed = self._removed.get(key)
        return removed is not None and removed[0] == uid and removed[1] > mark
