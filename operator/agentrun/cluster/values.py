"""What crosses the cluster port: frozen values, no dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from agentrun.api import AgentRun


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Namespace and name of an object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container ended. ``reason`` as the kubelet says it (Completed, Error, OOMKilled …),
    ``message`` what the program left in its termination log."""

    exit_code: int
    reason: str
    finished_at: datetime | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of ours as the cluster shows it.

    ``runner_end`` is the end of the container ``runner`` alone: a sidecar that outlives it does not
    keep the attempt going (H32). It is None in a pod that failed (``phase``) without its container's
    word: refused by the node, or lost with it. ``waiting`` is its (reason, message) while it cannot start
    (ImagePullBackOff, CreateContainerConfigError, Unschedulable …). ``evicted`` is the pod-level
    reason Evicted; ``disrupted`` the DisruptionTarget condition.
    """

    key: ObjectKey
    uid: str
    owner_uid: str | None
    run_uid: str | None
    fence: int | None
    attempt: int | None
    installation: str | None
    phase: str
    node: str | None
    created_at: datetime | None
    deleting: bool
    runner_running: bool
    runner_end: ContainerEnd | None
    waiting: tuple[str, str] | None
    evicted: bool
    disrupted: bool
    killed_by_user: bool = False
    """``agentrun kill`` (local mode notes it; in a cluster it is a pod deletion)."""


@dataclass(frozen=True, slots=True)
class AttemptPod:
    """The pod to create for one attempt. Adapters render it (a manifest, or child processes).

    ``run`` is the object that owns the pod. ``run_uid`` names the record, which is another one after
    an adoption by runId; empty: the object's own UID.
    """

    key: ObjectKey
    run: AgentRun
    attempt: int
    fence: int
    installation: str
    secret_name: str
    image: str
    workspace_image: str
    run_uid: str = ""
    avoid_node: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptSecret:
    """What the pod needs to claim: a DSN and the attempt's secret. Immutable, owned by the run."""

    key: ObjectKey
    run: AgentRun
    attempt: int
    fence: int
    installation: str
    dsn: str = field(repr=False)
    secret: str = field(repr=False)
    run_uid: str = ""


def record_uid(owned: AttemptPod | AttemptSecret) -> str:
    """The run UID that names the record in the store."""
    return owned.run_uid or owned.run.metadata.uid


@dataclass(frozen=True, slots=True)
class SecretView:
    """A Secret of ours, without its data: names and labels are all the operator may see."""

    key: ObjectKey
    uid: str
    owner_uid: str | None
    fence: int | None


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An Event about a run. ``type`` is Normal or Warning."""

    run: AgentRun
    type: str
    reason: str
    action: str
    note: str


@dataclass(frozen=True, slots=True)
class EventView:
    """An Event as a person reads it."""

    run: ObjectKey
    type: str
    reason: str
    action: str
    note: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one manifest: ``outcome`` is created, configured or unchanged."""

    kind: str
    key: ObjectKey
    outcome: str
