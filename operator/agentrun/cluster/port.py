"""The ports to a cluster: what the controller may ask of it, and what a person at a terminal may.

One contract test suite (tests/cluster_port) runs against both adapters. Errors are NotFound,
AlreadyExists, Conflict, Forbidden, Rejected, ClusterUnavailable of :mod:`agentrun.errors`.
Reads named ``get_`` are live; nothing here is cached.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from agentrun.api import AgentRun, AgentRunStatus, Approval, ApprovalStatus, Decision
from agentrun.cluster.values import (
    Applied,
    AttemptPod,
    AttemptSecret,
    ClusterEvent,
    EventView,
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
        """Delete this run's attempt Secrets, but for the names in ``keep``.

        In a cluster the operator can list none: after its restart, one whose pod was never created
        stays until the run goes. The database has voided it.
        """
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


class UserCluster(Protocol):
    """What the command line does for a person, with that person's rights.

    In a cluster these are the person's own API calls; locally the same rules hold (what may change,
    who may decide, who is stamped), and the person is the operating system's user.
    """

    async def check(self, manifest: Mapping[str, Any]) -> None:
        """Refuse what ``apply`` would refuse, as far as can be told here; nothing is written."""
        ...

    async def apply(self, manifest: Mapping[str, Any]) -> Applied:
        """Create or update an AgentRun, ConfigMap or Secret; Rejected names the field.

        A manifest without a namespace goes into the default one of this connection.
        """
        ...

    async def list_runs(self) -> Sequence[AgentRun]:
        """AgentRuns of the namespace."""
        ...

    async def list_approvals(self) -> Sequence[Approval]:
        """Approvals of the namespace."""
        ...

    async def get_run(self, name: str) -> AgentRun:
        """NotFound."""
        ...

    async def get_approval(self, name: str) -> Approval:
        """NotFound."""
        ...

    async def change_run(self, name: str, spec: Mapping[str, Any]) -> AgentRun:
        """Merge ``spec`` (wire names) into the run's spec: suspend, cancel, budgets. Rejected for
        anything immutable."""
        ...

    async def decide(
        self, name: str, decision: Decision, *, reason: str = "", answer: str = ""
    ) -> Approval:
        """Decide once. Conflict when it was decided or closed, Forbidden for the wrong person."""
        ...

    async def remove_run(self, name: str) -> None:
        """Delete the object and what it owns."""
        ...

    async def kill(self, name: str, signal: int) -> str:
        """End the run's current attempt the hard way and return its pod's name; NotFound when no
        pod is running. Locally a signal to the runner, in a cluster a deletion with grace 0."""
        ...

    async def events(self, name: str) -> Sequence[EventView]:
        """What happened to the run that has this name now, oldest first."""
        ...

    def logs(self, name: str, *, follow: bool = False) -> AsyncIterator[str]:
        """Lines of the newest attempt's runner; with ``follow`` until it has ended."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...
