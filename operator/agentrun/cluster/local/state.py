"""The state folder as one thing: objects, Secrets and processes, with their life cycles.

Synchronous; the adapters call it in a thread of their own. Several programs have one open at the
same time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from agentrun.cluster.local.folder import StateFolder
from agentrun.cluster.local.kubelet import Kubelet, waiting_status
from agentrun.cluster.local.secrets import SecretFiles
from agentrun.cluster.local.store import ObjectStore, key_of, owner_of, stamp
from agentrun.cluster.values import ObjectKey
from agentrun.errors import Conflict, NotFound

Body = dict[str, Any]

ENDED = ("Succeeded", "Failed")
KILLED_BY_USER = "agentrun.dev/killed-by-user"
SETTLE_START_SECONDS = 2.0
"""A pod without a supervisor for so long was left behind by a program that died creating it."""


class LocalState:
    """What is in one state folder."""

    def __init__(
        self,
        folder: StateFolder,
        *,
        clock: Callable[[], datetime],
        new_uid: Callable[[], str],
        ambient: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.new_uid = new_uid
        self.ambient = ambient
        self.store = ObjectStore(folder.objects, clock=clock, new_uid=new_uid)
        self.secrets = SecretFiles(folder)
        self.kubelet = Kubelet(folder, self.secrets, ambient)

    def close(self) -> None:
        """Close the store; pods live on."""
        self.kubelet.reap()
        self.store.close()

    def start_pod(self, pod: Body) -> Body:
        """Start it, or note why it waits."""
        key, uid = key_of(pod), pod["metadata"]["uid"]
        file = self.kubelet.file(uid)
        name = file["secretName"] if file else ""
        why = self.kubelet.start(
            uid,
            self.secret_uid(ObjectKey(key.namespace, name)),
            self.secret_entry,
            self.config_entry,
        )
        return self._set_pod_status(pod, waiting_status(why)) if why else pod

    def settle(self, *, start: bool = False) -> None:
        """Bring the objects up to what has become of the processes, and collect garbage.

        ``start``: also start pods that wait for a Secret, or whose creator died.
        """
        for pod in self.store.all_of("Pod"):
            self.settle_pod(pod, start=start)
        self.collect()

    def settle_pod(self, pod: Body, *, start: bool = False) -> Body | None:
        """One pod as it is now; None once it is no more."""
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        if pod["status"]["phase"] not in ENDED:
            status = self.kubelet.observe(uid)
            if status is None:
                self.remove("Pod", pod)
                return None
            if status["phase"] != "Pending":
                pod = self._set_pod_status(pod, status)
            elif start and not metadata.get("deletionTimestamp") and self._left_behind(pod):
                pod = self.start_pod(pod)
        if metadata.get("deletionTimestamp"):
            if pod["status"]["phase"] in ENDED or self.kubelet.withdraw(uid):
                self.remove("Pod", pod)
                return None
            self.kubelet.stop(uid, metadata["deletionGracePeriodSeconds"])
        return pod

    def delete_pod(self, key: ObjectKey, uid: str, grace: int | None) -> None:
        """Ask it to stop; with grace 0 it is dead and gone on return, as in a cluster."""
        pod = self.store.update("Pod", key, lambda body: self._marked(body, grace), uid=uid)
        seconds = pod["metadata"]["deletionGracePeriodSeconds"]
        if not self.kubelet.withdraw(uid):
            self.kubelet.stop(uid, seconds)
            if seconds == 0:
                self.kubelet.wait_gone(uid)
        self.settle_pod(pod)

    def delete_run(
        self, key: ObjectKey, uid: str | None = None, *, foreground: bool = False
    ) -> None:
        """The run goes at once, or, in the foreground, when nothing that it owns is left."""
        at = stamp(self.clock())

        def mark(now: Body) -> Body:
            return {**now, "metadata": {**now["metadata"], "deletionTimestamp": at}}

        if foreground:
            self.store.update("AgentRun", key, mark, uid=uid)
        else:
            gone = self.store.remove("AgentRun", key, uid)
            self._remove_volume(gone["metadata"]["uid"])
        self.collect()

    def collect(self) -> None:
        """Garbage collection: what has lost its owner goes, and what blocks a foreground deletion."""
        for body in self.store.orphans():
            if body["kind"] != "Pod":
                self.remove(body["kind"], body)
            elif not body["metadata"].get("deletionTimestamp"):
                with suppress(NotFound, Conflict):
                    self.delete_pod(key_of(body), body["metadata"]["uid"], None)
        for run in self.store.deleting("AgentRun"):
            if not self.store.owned(run["metadata"]["uid"]):
                self.remove("AgentRun", run)

    def remove(self, kind: str, body: Body) -> None:
        """Take one object out, with its files; nothing happens if somebody did it already."""
        uid = body["metadata"]["uid"]
        with suppress(NotFound, Conflict):
            self.store.remove(kind, key_of(body), uid)
        if kind == "Secret":
            self.secrets.remove(uid)
        if kind == "Pod":
            self.kubelet.bury(uid)
        if kind in ("AgentRun", "Pod"):
            self._remove_volume(uid if kind == "AgentRun" else owner_of(body))

    def _remove_volume(self, run_uid: str | None) -> None:
        """A volume goes with its run, once no pod of it is left."""
        pods = [body for body in self.store.owned(run_uid or "") if body["kind"] == "Pod"]
        if run_uid and not pods and not self.store.exists(run_uid):
            shutil.rmtree(self.folder.volume(run_uid), ignore_errors=True)

    def secret_uid(self, key: ObjectKey) -> str | None:
        """UID of a Secret, if it exists."""
        try:
            return str(self.store.get("Secret", key)["metadata"]["uid"])
        except NotFound:
            return None

    def secret_entry(self, namespace: str, name: str, entry: str) -> bytes | None:
        """Content of one entry of a Secret."""
        uid = self.secret_uid(ObjectKey(namespace, name))
        return None if uid is None else self.secrets.read(uid, entry)

    def config_entry(self, namespace: str, name: str, entry: str) -> bytes | None:
        """Content of one entry of a ConfigMap."""
        try:
            data = self.store.get("ConfigMap", ObjectKey(namespace, name)).get("data") or {}
        except NotFound:
            return None
        text = data.get(entry)
        return None if text is None else str(text).encode()

    def _left_behind(self, pod: Body) -> bool:
        created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
        old = self.clock() - created > timedelta(seconds=SETTLE_START_SECONDS)
        waits = bool(pod["status"].get("containerStatuses"))
        return old or waits

    def _marked(self, pod: Body, grace: int | None) -> Body:
        """With a deletion time; a later request may only shorten the grace period."""
        metadata = pod["metadata"]
        wanted = pod["spec"]["terminationGracePeriodSeconds"] if grace is None else grace
        known = metadata.get("deletionGracePeriodSeconds")
        if known is not None and known <= wanted:
            return pod
        at = stamp(self.clock() + timedelta(seconds=wanted))
        marks = {"deletionTimestamp": at, "deletionGracePeriodSeconds": wanted}
        return {**pod, "metadata": {**metadata, **marks}}

    def _set_pod_status(self, pod: Body, status: Body) -> Body:
        """Write what was observed; an end is never taken back."""

        def change(now: Body) -> Body:
            return now if now["status"]["phase"] in ENDED else {**now, "status": status}

        if pod["status"] == status:
            return pod
        try:
            return self.store.update("Pod", key_of(pod), change, uid=pod["metadata"]["uid"])
        except (NotFound, Conflict):
            return pod
