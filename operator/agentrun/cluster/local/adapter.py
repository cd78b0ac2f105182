"""The cluster port in local mode: the controller's side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from agentrun.api import AgentRun, AgentRunStatus, Approval, ApprovalStatus
from agentrun.cluster.environment import ATTEMPT_ENTRY, DSN_ENTRY
from agentrun.cluster.local.pod_spec import Commands, local_pod_body, local_pod_file
from agentrun.cluster.local.state import KILLED_BY_USER, LocalState
from agentrun.cluster.local.watch import Watcher
from agentrun.cluster.parse import parsed, readable
from agentrun.cluster.secret_manifest import secret_manifest
from agentrun.cluster.values import (
    AttemptPod,
    AttemptSecret,
    ClusterEvent,
    ObjectKey,
    PodView,
    SecretView,
)
from agentrun.cluster.views import pod_view, secret_view
from agentrun.errors import AlreadyExists, Forbidden, NotFound, Rejected

Body = dict[str, Any]
T = TypeVar("T")

EVENTS_PER_RUN = 200


class LocalCluster:
    """Implements :class:`agentrun.cluster.port.Cluster` on a state folder.

    All work is done in one thread, in order, so that the caller's loop never waits for the disk.
    """

    def __init__(self, state: LocalState, *, host: str, commands: Commands) -> None:
        self.state = state
        self._host = host
        self._commands = commands
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="local-cluster")

    async def close(self) -> None:
        """Stop working on the folder. Pods live on."""
        await self._do(self.state.close)
        self._thread.shutdown()

    async def list_runs(self) -> Sequence[AgentRun]:
        """All runs of the folder."""
        return await self._do(lambda: readable(AgentRun, self.state.store.all_of("AgentRun")))

    async def list_approvals(self) -> Sequence[Approval]:
        """All approvals of the folder."""
        return await self._do(lambda: readable(Approval, self.state.store.all_of("Approval")))

    async def list_pods(self) -> Sequence[PodView]:
        """All pods, as their processes are now."""

        def work() -> list[PodView]:
            pods = (self.state.settle_pod(pod) for pod in self.state.store.all_of("Pod"))
            return [_view(pod) for pod in pods if pod is not None]

        return await self._do(work)

    async def get_run(self, key: ObjectKey) -> AgentRun:
        """Live read; NotFound."""
        return await self._do(lambda: parsed(AgentRun, self.state.store.get("AgentRun", key)))

    async def get_pod(self, key: ObjectKey) -> PodView:
        """Live read, of the processes too; NotFound."""

        def work() -> PodView:
            pod = self.state.settle_pod(self.state.store.get("Pod", key))
            if pod is None:
                raise NotFound("no such object", attempted="get Pod", on=str(key))
            return _view(pod)

        return await self._do(work)

    async def get_approval(self, key: ObjectKey) -> Approval:
        """Live read; NotFound."""
        return await self._do(lambda: parsed(Approval, self.state.store.get("Approval", key)))

    async def get_config(self, key: ObjectKey, entry: str) -> str:
        """One entry of a ConfigMap that was applied; NotFound says which part is missing."""

        def work() -> str:
            content = self.state.config_entry(key.namespace, key.name, entry)
            if content is None:
                self.state.store.get("ConfigMap", key)
                raise NotFound(f"no entry {entry}", attempted="read ConfigMap", on=str(key))
            return content.decode()

        return await self._do(work)

    async def secret_exists(self, key: ObjectKey, entry: str) -> bool | None:
        """Whether the Secret was applied and has the entry."""
        return await self._do(
            lambda: self.state.secret_entry(key.namespace, key.name, entry) is not None
        )

    async def namespace_terminating(self, namespace: str) -> bool:
        """Local namespaces are only names."""
        del namespace
        return False

    async def namespace_uid(self, namespace: str) -> str:
        """Made once per state folder and namespace."""
        return await self._do(lambda: self.state.store.constant(f"namespace/{namespace}"))

    async def create_pod(self, pod: AttemptPod) -> PodView:
        """Its supervisor is started on return, its runner a moment later."""
        return await self._do(lambda: _view(self._create_pod(pod)))

    async def delete_pod(self, key: ObjectKey, uid: str, grace_seconds: int | None = None) -> None:
        """SIGTERM, the grace period, SIGKILL to everything of the pod; meanwhile it is deleting."""
        await self._do(lambda: self.state.delete_pod(key, uid, grace_seconds))

    async def create_secret(self, secret: AttemptSecret) -> SecretView:
        """Files first, then the object, so that an existing Secret is never empty."""
        entries = {DSN_ENTRY: secret.dsn.encode(), ATTEMPT_ENTRY: secret.secret.encode()}
        return await self._do(lambda: secret_view(self._create_secret(secret, entries)))

    async def delete_attempt_secrets(self, run: AgentRun, keep: Sequence[str]) -> None:
        """Every attempt Secret of this object but those in ``keep``."""

        def work() -> None:
            for body in self.state.store.owned(run.metadata.uid):
                if body["kind"] == "Secret" and body["metadata"]["name"] not in keep:
                    self.state.remove("Secret", body)

        await self._do(work)

    async def create_approval(self, approval: Approval) -> Approval:
        """Pending, whatever was given: only people decide (H37)."""
        if approval.spec.decision is not None:
            raise Forbidden("an approval is created undecided", attempted="create Approval")
        body = approval.to_dict()
        return parsed(Approval, await self._do(lambda: self._create("Approval", body)))

    async def delete_approval(self, key: ObjectKey, uid: str) -> None:
        """NotFound; Conflict for another UID."""
        await self._do(lambda: self.state.store.remove("Approval", key, uid))

    async def patch_run_status(self, run: AgentRun, status: AgentRunStatus) -> AgentRun:
        """Conflict if the object changed since ``run`` was read."""
        body = await self._do(lambda: self._set_status("AgentRun", run, status.to_dict()))
        return parsed(AgentRun, body)

    async def patch_approval_status(self, approval: Approval, status: ApprovalStatus) -> Approval:
        """Conflict if the object changed since ``approval`` was read."""
        body = await self._do(lambda: self._set_status("Approval", approval, status.to_dict()))
        return parsed(Approval, body)

    async def delete_run(self, run: AgentRun) -> None:
        """And with it everything that it owns."""
        key = ObjectKey(run.metadata.namespace, run.metadata.name)
        await self._do(lambda: self.state.delete_run(key, run.metadata.uid))

    async def emit(self, event: ClusterEvent) -> None:
        """Kept for ``agentrun events``; the oldest of a run make room."""
        await self._do(lambda: self._emit(event))

    def changes(self) -> AsyncIterator[ObjectKey]:
        """Keys of runs that changed after this call; also keeps pods and their objects in step."""
        return Watcher(self.state, self._do).keys()

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _create(self, kind: str, body: Body, uid: str | None = None) -> Body:
        metadata = {"namespace": "default", **body["metadata"]}
        return self.state.store.create(kind, {**body, "metadata": metadata}, uid)

    def _create_pod(self, pod: AttemptPod) -> Body:
        if images := [s.name for s in pod.run.spec.tool_servers if s.image is not None]:
            raise Rejected(
                f"tool server {images[0]} is an image, and local mode runs no images",
                attempted="create Pod",
                on=str(pod.key),
                advice="Give it as command or url, or run it in a cluster",
            )
        uid = self.state.new_uid()
        file = local_pod_file(pod, uid, self.state.folder, self._commands, self.state.ambient)
        self.state.kubelet.prepare(uid, file)
        try:
            body = self._create("Pod", local_pod_body(pod, self._host), uid)
        except AlreadyExists:
            self.state.kubelet.bury(uid)
            raise
        return self.state.start_pod(body)

    def _create_secret(self, secret: AttemptSecret, entries: Mapping[str, bytes]) -> Body:
        uid = self.state.new_uid()
        self.state.secrets.write(uid, entries)
        body = secret_manifest(secret)
        del body["stringData"]
        try:
            return self._create("Secret", body, uid)
        except AlreadyExists:
            self.state.secrets.remove(uid)
            raise

    def _set_status(self, kind: str, seen: AgentRun | Approval, status: Body) -> Body:
        return self.state.store.update(
            kind,
            ObjectKey(seen.metadata.namespace, seen.metadata.name),
            lambda body: {**body, "status": status},
            version=seen.metadata.resource_version,
        )

    def _emit(self, event: ClusterEvent) -> None:
        meta = event.run.metadata
        self.state.store.append_event(
            ObjectKey(meta.namespace, meta.name),
            {
                "uid": meta.uid,
                "type": event.type,
                "reason": event.reason,
                "action": event.action,
                "note": event.note,
                "at": self.state.clock().isoformat(),
            },
            keep=EVENTS_PER_RUN,
        )


def _view(pod: Body) -> PodView:
    killed = pod["metadata"].get("annotations", {}).get(KILLED_BY_USER) == "true"
    return replace(pod_view(pod), killed_by_user=killed)
