"""Watching the state folder: cheap looks, often."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from agentrun.cluster.local.state import ENDED, LocalState
from agentrun.cluster.values import ObjectKey
from agentrun.errors import ClusterUnavailable

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
RETRY_SECONDS = 1.0
THOROUGH_SECONDS = 0.5
"""A killed supervisor leaves no trace in the folder's times, so its lock is looked at this often."""

Do = Callable[[Callable[[], Any]], Awaitable[Any]]


class Watcher:
    """One watch. A look costs one indexed read, and one stat for each pod that is alive."""

    def __init__(self, state: LocalState, do: Do) -> None:
        self._state = state
        self._do = do
        self._seen = state.store.version()
        self._listed = -1
        self._live: dict[str, int] = {}
        self._thorough_at = 0.0

    async def keys(self) -> AsyncIterator[ObjectKey]:
        """Runs that changed since the watch was made, for as long as it is iterated. A file that is
        locked or a disk that is full is looked at again: what changed meanwhile is still noted."""
        while True:
            try:
                changed: Sequence[ObjectKey] = await self._do(self._look)
            except ClusterUnavailable as error:
                log.warning("cannot watch, will be tried again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            for key in changed:
                yield key
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> Sequence[ObjectKey]:
        store = self._state.store
        now = time.monotonic()
        changed = store.version() != self._listed
        if changed or now >= self._thorough_at or self._touched():
            before = {uid: self._time(uid) for uid in self._live_pods()}
            self._listed = store.version()
            self._state.settle(start=True)
            self._live = {uid: before.get(uid, 0) for uid in self._live_pods()}
            self._thorough_at = now + THOROUGH_SECONDS
        version = store.version()
        keys = store.changed_runs(self._seen) if version != self._seen else ()
        self._seen = version
        return keys

    def _live_pods(self) -> list[str]:
        pods = self._state.store.all_of("Pod")
        return [pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] not in ENDED]

    def _touched(self) -> bool:
        return any(self._time(uid) != before for uid, before in self._live.items())

    def _time(self, uid: str) -> int:
        try:
            return self._state.folder.pod(uid).stat().st_mtime_ns
        except FileNotFoundError:
            return 0
