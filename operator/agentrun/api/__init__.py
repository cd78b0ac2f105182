"""The custom resources: what users write and read.

Frozen pydantic models of AgentRun and Approval, names and labels, conditions and reasons. This layer
is pure: no clock, no network, no randomness. ``agentrun.api.validation`` (checks across lists) and
``agentrun.api.crd`` (the CRDs made from these models) are imported by those who need them, because a
runner pod needs neither.
"""

from agentrun.api.agent import AgentSpec, Context, ContextStrategy
from agentrun.api.approval import (
    ANSWERED,
    DECISIONS,
    Approval,
    ApprovalContent,
    ApprovalPolicy,
    ApprovalSpec,
    ApprovalState,
    ApprovalStatus,
    Decision,
    RunRef,
    Scope,
)
from agentrun.api.base import ApiModel
from agentrun.api.checkpoint import Checkpoint, OnSaveFailure, Position, Redaction
from agentrun.api.conditions import Condition, ConditionStatus, ConditionType, Phase, Reason
from agentrun.api.gates import Approvers, Gates, OnTimeout
from agentrun.api.limits import Lease, Limits, OnExceeded, OnUnreachable, Retention
from agentrun.api.meta import (
    ConfigMapKeyRef,
    LocalRef,
    ObjectMeta,
    OwnerReference,
    SecretKeyRef,
    TextSource,
)
from agentrun.api.model import Bedrock, ModelOverride, ModelSpec, Pricing, Provider, Vertex
from agentrun.api.pod import RunnerPod
from agentrun.api.resource import AgentRun
from agentrun.api.spec import AgentRunSpec
from agentrun.api.status import (
    AgentRunStatus,
    AttemptStatus,
    CheckpointStatus,
    ContinuedFrom,
    Fault,
    TaskPhase,
    TaskStatus,
    TaskSummary,
    Usage,
)
from agentrun.api.tasks import (
    Coordinator,
    DependencyPayload,
    ForkFrom,
    MemoryScope,
    PlanSource,
    Priority,
    Swarm,
    TaskRequires,
    TaskSpec,
)
from agentrun.api.tools import (
    ApprovalMode,
    EnvSource,
    EnvVar,
    HeaderFrom,
    ImagePullPolicy,
    OnUnknown,
    Persistence,
    ToolPolicy,
    ToolServer,
    Workspace,
)

__all__ = [
    "ANSWERED",
    "DECISIONS",
    "AgentRun",
    "AgentRunSpec",
    "AgentRunStatus",
    "AgentSpec",
    "ApiModel",
    "Approval",
    "ApprovalContent",
    "ApprovalMode",
    "ApprovalPolicy",
    "ApprovalSpec",
    "ApprovalState",
    "ApprovalStatus",
    "Approvers",
    "AttemptStatus",
    "Bedrock",
    "Checkpoint",
    "CheckpointStatus",
    "Condition",
    "ConditionStatus",
    "ConditionType",
    "ConfigMapKeyRef",
    "Context",
    "ContextStrategy",
    "ContinuedFrom",
    "Coordinator",
    "Decision",
    "DependencyPayload",
    "EnvSource",
    "EnvVar",
    "Fault",
    "ForkFrom",
    "Gates",
    "HeaderFrom",
    "ImagePullPolicy",
    "Lease",
    "Limits",
    "LocalRef",
    "MemoryScope",
    "ModelOverride",
    "ModelSpec",
    "ObjectMeta",
    "OnExceeded",
    "OnSaveFailure",
    "OnTimeout",
    "OnUnknown",
    "OnUnreachable",
    "OwnerReference",
    "Persistence",
    "Phase",
    "PlanSource",
    "Position",
    "Pricing",
    "Priority",
    "Provider",
    "Reason",
    "Redaction",
    "Retention",
    "RunRef",
    "RunnerPod",
    "Scope",
    "SecretKeyRef",
    "Swarm",
    "TaskPhase",
    "TaskRequires",
    "TaskSpec",
    "TaskStatus",
    "TaskSummary",
    "TextSource",
    "ToolPolicy",
    "ToolServer",
    "Usage",
    "Vertex",
    "Workspace",
]
