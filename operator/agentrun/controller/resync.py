"""The full resync: fresh lists, every key once more, and what watches and deletions have missed.

The sweep revokes rows whose object is gone: only own rows (H20), only after a live GET says 404 or
another UID, twice, ten minutes apart. It pauses when the lists fail or more than a fifth of the rows
would go: then something else is wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agentrun.api import AgentRun
from agentrun.cluster.port import Cluster
from agentrun.cluster.values import ObjectKey
from agentrun.controller.cache import Cache, object_key, run_key_of_approval, run_key_of_pod
from agentrun.controller.ledger import Ledger
from agentrun.controller.pause import pause
from agentrun.controller.queue import WorkQueue
from agentrun.controller.reconcile import Reconciler, shown_finished
from agentrun.controller.settings import Settings
from agentrun.errors import AgentRunError, ClusterError, NotFound
from agentrun.store.port import OperatorStore
from agentrun.store.rows import RunRow

log = logging.getLogger(__name__)

MAX_SHARE = 5
FIRST_SECONDS = 20.0


async def load(cluster: Cluster, cache: Cache) -> set[ObjectKey]:
    """Complete lists of all kinds into the cache; the runs about which something disappeared."""
    marks = cache.marks()
    runs = list(await cluster.list_runs())
    runs += await _unlisted(cluster, cache, runs)
    pods = await cluster.list_pods()
    approvals = await cluster.list_approvals()
    return cache.relist(marks, runs, pods, approvals)


async def _unlisted(cluster: Cluster, cache: Cache, listed: Iterable[AgentRun]) -> list[AgentRun]:
    """Known runs that the list lacks and that a live GET does not call gone.

    A list leaves out what this release cannot read (a newer CRD, a field set by hand), and what is
    taken for gone is revoked.
    """
    there = {object_key(run) for run in listed}
    kept = []
    for run in cache.runs:
        if object_key(run) in there:
            continue
        try:
            kept.append(await cluster.get_run(object_key(run)))
        except NotFound:
            continue
        except ClusterError:
            kept.append(run)
    return kept


@dataclass(slots=True, kw_only=True)
class Resync:
    """Lists, sweeps and enqueues, with jitter."""

    store: OperatorStore
    cluster: Cluster
    cache: Cache
    ledger: Ledger
    queue: WorkQueue
    reconciler: Reconciler
    settings: Settings
    clock: Callable[[], float]
    jitter: Callable[[], float]
    _suspects: dict[str, float] = field(default_factory=dict)

    async def once(self) -> None:
        """One resync. Finished runs that are settled are not looked at again. What the lists have
        shown comes first, because no later list shows it again."""
        touched = await load(self.cluster, self.cache)
        self.ledger.recheck_namespaces()
        live = {key for key in map(object_key, self.cache.runs) if not self.reconciler.settled(key)}
        for key in touched | live:
            self.queue.add(key)
        await self.pods_without_run()
        await self.approvals_without_run()
        await self.rows_without_run()

    async def pods_without_run(self) -> None:
        """Pods of ours whose run was deleted while nobody watched."""
        for pod in list(self.cache.pods):
            key, uid = run_key_of_pod(pod.key), pod.owner_uid or pod.run_uid
            mine = pod.installation == self.settings.installation
            if uid and mine and not pod.deleting and await self._is_gone(key, uid):
                self.cache.bury(key, uid)
                self.queue.add(key)

    async def approvals_without_run(self) -> None:
        """Approvals that outlived their run: deleted with ``--cascade=orphan``, or robbed of their
        owner."""
        for approval in list(self.cache.approvals):
            key, uid = run_key_of_approval(object_key(approval)), approval.spec.run_ref.uid
            if not approval.metadata.deleting and await self._is_gone(key, uid):
                self.cache.bury(key, uid)
                self.queue.add(key)

    async def rows_without_run(self) -> None:
        """Rows of ours whose object is gone, seen twice; suspended ones and those that wait as well."""
        found = await self.store.unfinished(self.settings.installation)
        watched = self.settings.namespaces
        rows = [row for row in found if not watched or row.namespace in watched]
        self._wake_shown_finished(rows)
        missing = [row for row in rows if not self._cached(row)]
        if too_many(len(missing), len(rows)):
            log.warning("sweep paused: %d of %d rows have no object", len(missing), len(rows))
            return
        gone = [row for row in missing if await self._is_gone(_key(row), row.object_uid)]
        self._forget_all_but(gone)
        now = self.clock()
        for row in gone:
            if now - self._suspects.setdefault(row.run_uid, now) >= self.settings.sweep_confirm:
                log.warning("run %s (%s) has no object any more: revoking", _key(row), row.run_uid)
                self.cache.bury(_key(row), row.object_uid)
                self.queue.add(_key(row))

    def _wake_shown_finished(self, rows: Iterable[RunRow]) -> None:
        """A finished status spares its run every look; one that the record contradicts was written by
        somebody else, and must not freeze the run."""
        for row in rows:
            run = self.cache.runs.get(_key(row))
            if run is not None and self._cached(row) and shown_finished(run):
                self.queue.add(_key(row))

    def _forget_all_but(self, gone: Iterable[RunRow]) -> None:
        known = {row.run_uid for row in gone}
        self._suspects = {uid: at for uid, at in self._suspects.items() if uid in known}

    def _cached(self, row: RunRow) -> bool:
        run = self.cache.runs.get(_key(row))
        return run is not None and run.metadata.uid == row.object_uid

    async def _is_gone(self, key: ObjectKey, uid: str) -> bool:
        """By a live GET; an answer that is neither yes nor no is no."""
        known = self.cache.runs.get(key)
        if known is not None and known.metadata.uid == uid:
            return False
        try:
            run = await self.cluster.get_run(key)
        except NotFound:
            return True
        except ClusterError:
            return False
        return run.metadata.uid != uid

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop; a failed resync is tried again at the next turn. The first comes soon:
        what was deleted between the operator's first lists and the watches' own gave no event."""
        wait = min(FIRST_SECONDS, self.settings.resync)
        while not await pause(stop, wait * (0.9 + 0.2 * self.jitter())):
            wait = self.settings.resync
            try:
                await self.once()
            except AgentRunError as error:
                log.warning("resync failed, will be repeated: %s", error)


def too_many(going: int, rows: int) -> bool:
    """More than a fifth, but a single one may always go."""
    return going > 1 and going * MAX_SHARE > rows


def _key(row: RunRow) -> ObjectKey:
    return ObjectKey(row.namespace, row.name)
