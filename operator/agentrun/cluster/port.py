"""The port to a cluster: what the controller may ask of it.

One contract test suite (tests/cluster_port) runs against both adapters. Errors are NotFound,
AlreadyExists, Conflict, Forbidden, Rejected, ClusterUnavailable of :mod:`agentrun.errors`.
Reads named ``get_`` are live; nothing here is cached.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from agentrun.api import AgentRun, AgentRunStatus, Approval, ApprovalStatus
from agentrun.cluster.values import (
    AttemptPod,
    AttemptSecret,
    ClusterEvent,
    ObjectKey,
    PodView,
    SecretView,
)


class Cluster(Protocol):
    """AgentRuns, Approvals, pods and Secrets of one installation's namespaces."""

    async def list_runs(self) -> Sequence[AgentRun]:
        """All AgentRuns of the watched namespaces, a consistent read."""
        ...

    async def list_approvals(self) -> Sequence[Approval]:
        """All Approvals of the watched namespaces."""
        ...

    async def list_pods(self) -> Sequence[PodView]:
        """All pods that carry our run label in the watched namespaces."""
        ...

    async def get_run(self, key: ObjectKey) -> AgentRun:
        """Live read; NotFound."""
        ...

    async def get_pod(self, key: ObjectKey) -> PodView:
        """Live read; NotFound."""
        ...

    async def get_approval(self, key: ObjectKey) -> Approval:
        """Live read; NotFound."""
        ...

    async def get_config(self, key: ObjectKey, entry: str) -> str:
        """One entry of a ConfigMap (promptFrom, instructionsFrom); NotFound names what is missing."""
        ...

    async def secret_exists(self, key: ObjectKey, entry: str) -> bool | None:
        """Whether a user's Secret has the entry; None when this adapter may not look (a cluster:
        the operator reads no Secrets, the kubelet reports CreateContainerConfigError)."""
        ...

    async def namespace_terminating(self, namespace: str) -> bool:
        """Whether the namespace is going away: then nothing is created in it (H24)."""
        ...

    async def namespace_uid(self, namespace: str) -> str:
        """UID of the namespace."""
        ...

    async def create_pod(self, pod: AttemptPod) -> PodView:
        """AlreadyExists when the name is taken; Forbidden for quota and admission."""
        ...

    async def delete_pod(self, key: ObjectKey, uid: str, grace_seconds: int | None = None) -> None:
        """With a UID precondition; NotFound and Conflict (another UID) are raised."""
        ...

    async def create_secret(self, secret: AttemptSecret) -> SecretView:
        """Immutable Secret, owned by the run; AlreadyExists when the name is squatted (H50)."""
        ...

    async def delete_attempt_secrets(self, run: AgentRun, keep: Sequence[str]) -> None:
        """Delete this run's attempt Secrets by label, but for the names in ``keep``."""
        ...

    async def create_approval(self, approval: Approval) -> Approval:
        """Returns the object with its UID; AlreadyExists."""
        ...

    async def delete_approval(self, key: ObjectKey, uid: str) -> None:
        """With a UID precondition."""
        ...

    async def patch_run_status(self, run: AgentRun, status: AgentRunStatus) -> AgentRun:
        """Replace the status if the object still has ``run``'s resourceVersion, else Conflict."""
        ...

    async def patch_approval_status(self, approval: Approval, status: ApprovalStatus) -> Approval:
        """Replace the status if the object still has this resourceVersion, else Conflict."""
        ...

    async def delete_run(self, run: AgentRun) -> None:
        """Delete the object (TTL), UID precondition."""
        ...

    async def emit(self, event: ClusterEvent) -> None:
        """Post an Event; repeats of the same are aggregated by the caller."""
        ...

    def changes(self) -> AsyncIterator[ObjectKey]:
        """Keys of runs whose run, approval or pod changed. In a cluster Kopf feeds the controller
        instead, and this iterator is empty; the local adapter yields here."""
        ...

    async def close(self) -> None:
        """Close connections. Pods live on."""
        ...
