"""Snapshots: written beside the boundaries, when the tail has grown enough.

Encoding runs in a thread, on a copy whose containers are its own and whose messages are shared: the
fold replaces messages and never changes one, so neither side holds up the other (H54).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from agentrun.errors import Fenced, StoreRegressed
from agentrun.run import codec
from agentrun.run.records import SCHEMA_VERSION
from agentrun.run.state import State
from agentrun.runner.observer import Observer
from agentrun.store.port import RunnerStore

COMMITS = 128
BYTES = 256 * 1024

Offload = Callable[[Callable[[], codec.Encoded]], Awaitable[codec.Encoded]]
"""Runs a function beside the event loop."""


@dataclass(slots=True)
class Growth:
    """How much has been committed since the last snapshot, and how large that one is."""

    commits: int = 0
    size: int = 0
    snapshot: int = 0

    def due(self) -> bool:
        """As much again as the last snapshot, and at least a minimum.

        Sizes then double, so all snapshots together stay within 1.5 times the stored commits
        (measured: 1.46). At half as much again they came to 2.44 times.
        """
        enough = self.commits >= COMMITS or self.size >= BYTES
        return enough and self.size >= self.snapshot


class Snapshots:
    """At most one at a time. A failed one is tried again when the tail has grown as much again."""

    def __init__(
        self,
        store: RunnerStore,
        observer: Observer,
        growth: Growth,
        known_blobs: set[str],
        offload: Offload,
        broken: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._observer = observer
        self._growth = growth
        self._known = known_blobs
        self._offload = offload
        self._broken = broken
        self._task: asyncio.Task[None] | None = None
        self.seq = 0

    def landed(self, seq: int, size: int) -> None:
        """A commit is durable."""
        self.seq = seq
        self._growth.commits += 1
        self._growth.size += size

    def take(self, state: State) -> None:
        """Write one if it is due. ``state`` must be the fold of exactly the commits up to ``seq``."""
        if self._task is not None or not self._growth.due():
            return
        self._growth = Growth(snapshot=self._growth.snapshot)
        self._task = asyncio.create_task(
            self._write(own_copy(state), self.seq), name=f"snapshot {self.seq}"
        )

    async def close(self) -> None:
        """Stop writing; half a snapshot is none."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=1)

    async def _write(self, state: State, seq: int) -> None:
        try:
            encoded = await self._offload(lambda: codec.encode_state(state))
            new = {name: data for name, data in encoded.blobs.items() if name not in self._known}
            await self._store.snapshot(SCHEMA_VERSION, seq, encoded.codec, encoded.body, new)
            self._known.update(new)
        except (Fenced, StoreRegressed) as error:
            self._broken(error)
        except Exception as error:  # noqa: BLE001 - a snapshot is a help, and nothing depends on it
            self._observer.snapshot_failed(error)
        else:
            self._growth.snapshot = len(encoded.body)
            self._observer.snapshot(seq, len(encoded.body))
        finally:
            self._task = None


def own_copy(state: State) -> State:
    """A copy that later folds do not reach. Messages, arguments and results are shared, not copied."""
    copied: State = _copy(state)
    return copied


def _copy(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        if getattr(type(value), "__dataclass_params__").frozen:  # noqa: B009 - not a typed name
            return value
        return type(value)(**{f.name: _copy(getattr(value, f.name)) for f in fields(value)})
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) if is_dataclass(item) else item for item in value]
    return value
