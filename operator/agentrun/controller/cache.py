"""What the watches have shown: runs, their pods, their approvals, and which objects are gone.

One cache, filled by Kopf's events or the local adapter's, and by lists. Nothing acts on it before it
holds a complete list of each kind (H14).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from agentrun.api import AgentRun, Approval
from agentrun.cluster.values import ObjectKey, PodView
from agentrun.controller.object_cache import Kind, ObjectCache

ENDED = ("Succeeded", "Failed")

T = TypeVar("T", AgentRun, Approval)


def object_key(item: AgentRun | Approval) -> ObjectKey:
    """Namespace and name."""
    return ObjectKey(item.metadata.namespace, item.metadata.name)


def run_key_of_pod(pod: ObjectKey) -> ObjectKey:
    """``<run>-<5 hex>-<attempt>``: the run that a pod's name belongs to."""
    return ObjectKey(pod.namespace, pod.name.rsplit("-", 2)[0])


def run_key_of_approval(approval: ObjectKey) -> ObjectKey:
    """``<run>-apr-<10 hex>``: the run that an approval's name belongs to."""
    return ObjectKey(approval.namespace, approval.name.rsplit("-apr-", 1)[0])


class Cache:
    """All that is known of the cluster without asking it."""

    def __init__(self) -> None:
        self.runs: ObjectCache[AgentRun] = ObjectCache(Kind(object_key, _uid, _newer))
        self.approvals: ObjectCache[Approval] = ObjectCache(Kind(object_key, _uid, _newer))
        self.pods: ObjectCache[PodView] = ObjectCache(Kind(_pod_key, _pod_uid, _later_pod))
        self.synced = False
        self._pods_of: dict[ObjectKey, set[ObjectKey]] = {}
        self._approvals_of: dict[ObjectKey, set[ObjectKey]] = {}
        self._tombs: dict[ObjectKey, dict[str, AgentRun | None]] = {}

    def put_run(self, run: AgentRun) -> ObjectKey:
        """A run was seen; the older one of two under its name has gone unnoticed (H23).

        Events of one object come in order, those of an object and of its successor need not.
        """
        key = object_key(run)
        old = self.runs.get(key)
        if old is not None and old.metadata.uid != run.metadata.uid:
            if _newer(old, run) is old:
                self.bury(key, run.metadata.uid, run)
                return key
            self.bury(key, old.metadata.uid, old)
        self.runs.put(run)
        return key

    def remove_run(self, run: AgentRun) -> ObjectKey:
        """A run was deleted."""
        key = object_key(run)
        self.runs.remove(key, run.metadata.uid)
        self.bury(key, run.metadata.uid, run)
        return key

    def put_pod(self, pod: PodView) -> ObjectKey:
        """A pod was seen."""
        key = run_key_of_pod(pod.key)
        self._pods_of.setdefault(key, set()).add(pod.key)
        self.pods.put(pod)
        return key

    def remove_pod(self, key: ObjectKey, uid: str) -> ObjectKey:
        """A pod is gone."""
        self.pods.remove(key, uid)
        return _unindex(self._pods_of, run_key_of_pod(key), key, kept=self.pods.get(key))

    def mark_deleting(self, key: ObjectKey, uid: str) -> None:
        """A pod was asked to stop; no need to ask again before the watch says so."""
        pod = self.pods.get(key)
        if pod is not None and pod.uid == uid:
            self.pods.put(replace(pod, deleting=True))

    def put_approval(self, approval: Approval) -> ObjectKey:
        """An approval was seen."""
        key = object_key(approval)
        self._approvals_of.setdefault(run_key_of_approval(key), set()).add(key)
        self.approvals.put(approval)
        return run_key_of_approval(key)

    def remove_approval(self, key: ObjectKey, uid: str) -> ObjectKey:
        """An approval is gone."""
        self.approvals.remove(key, uid)
        run = run_key_of_approval(key)
        return _unindex(self._approvals_of, run, key, kept=self.approvals.get(key))

    def pods_of(self, run: ObjectKey) -> tuple[PodView, ...]:
        """Pods with a name of this run, whoever owns them."""
        found = (self.pods.get(key) for key in sorted(self._pods_of.get(run, ()), key=str))
        return tuple(pod for pod in found if pod is not None)

    def approvals_of(self, run: ObjectKey) -> tuple[Approval, ...]:
        """Approvals with a name of this run."""
        found = (
            self.approvals.get(key) for key in sorted(self._approvals_of.get(run, ()), key=str)
        )
        return tuple(approval for approval in found if approval is not None)

    def bury(self, key: ObjectKey, uid: str, run: AgentRun | None = None) -> None:
        """Remember that this object is gone until its row is known to be revoked, and what it was."""
        tombs = self._tombs.setdefault(key, {})
        tombs[uid] = run or tombs.get(uid)

    def buried(self, key: ObjectKey, uid: str) -> AgentRun | None:
        """The gone object as it was last seen, if it was."""
        return self._tombs.get(key, {}).get(uid)

    def tombs(self, key: ObjectKey) -> tuple[str, ...]:
        """UIDs of gone objects of that name."""
        return tuple(sorted(self._tombs.get(key, ())))

    def settle_tomb(self, key: ObjectKey, uid: str) -> None:
        """Nothing is left to do about a gone object."""
        self._tombs.get(key, {}).pop(uid, None)
        if not self._tombs.get(key):
            self._tombs.pop(key, None)

    def marks(self) -> tuple[int, int, int]:
        """Now, for the lists that are asked for next."""
        return self.runs.mark(), self.pods.mark(), self.approvals.mark()

    def relist(
        self,
        marks: tuple[int, int, int],
        runs: Iterable[AgentRun],
        pods: Iterable[PodView],
        approvals: Iterable[Approval],
    ) -> set[ObjectKey]:
        """Take over complete lists; returns the runs about which something disappeared."""
        touched: set[ObjectKey] = set()
        for run in self.runs.replace(runs, marks[0]):
            touched.add(object_key(run))
            self.bury(object_key(run), run.metadata.uid, run)
        touched |= {run_key_of_pod(pod.key) for pod in self.pods.replace(pods, marks[1])}
        gone = self.approvals.replace(approvals, marks[2])
        touched |= {run_key_of_approval(object_key(approval)) for approval in gone}
        self._index()
        self.synced = True
        return touched

    def _index(self) -> None:
        self._pods_of, self._approvals_of = {}, {}
        for pod in self.pods:
            self._pods_of.setdefault(run_key_of_pod(pod.key), set()).add(pod.key)
        for approval in self.approvals:
            key = object_key(approval)
            self._approvals_of.setdefault(run_key_of_approval(key), set()).add(key)


def _uid(item: AgentRun | Approval) -> str:
    return item.metadata.uid


def _pod_key(pod: PodView) -> ObjectKey:
    return pod.key


def _pod_uid(pod: PodView) -> str:
    return pod.uid


def _newer(old: T, new: T) -> T:
    """The one with the later resourceVersion, where both are numbers (they are opaque otherwise)."""
    before, after = old.metadata.resource_version, new.metadata.resource_version
    if before.isdigit() and after.isdigit() and int(before) > int(after):
        return old
    return new


def _later_pod(old: PodView, new: PodView) -> PodView:
    """Deletion and end are never undone, so an event that is late cannot take them back."""
    return replace(
        new,
        phase=old.phase if old.phase in ENDED else new.phase,
        deleting=old.deleting or new.deleting,
        runner_end=new.runner_end or old.runner_end,
        evicted=old.evicted or new.evicted,
        disrupted=old.disrupted or new.disrupted,
        killed_by_user=old.killed_by_user or new.killed_by_user,
    )


def _unindex(
    index: dict[ObjectKey, set[ObjectKey]], run: ObjectKey, key: ObjectKey, *, kept: object
) -> ObjectKey:
    if kept is None:
        index.get(run, set()).discard(key)
        if not index.get(run):
            index.pop(run, None)
    return run
