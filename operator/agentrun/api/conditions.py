"""Phases, condition types and the closed set of reasons."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from agentrun.api.base import ApiModel
from agentrun.api.bounds import Count, Time


class Phase(StrEnum):
    """Where the run is, derived for the eye; nothing reads it back."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    REJECTED = "Rejected"

    @property
    def terminal(self) -> bool:
        """Whether nothing can follow."""
        return self in _TERMINAL


_TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.REJECTED})


class Reason(StrEnum):
    """Why, for ``status.reason`` and for conditions. The set is closed; it grows by release."""

    # Ordinary life
    STARTING = "Starting"
    RUNNING = "Running"
    RESUMING = "Resuming"
    BACK_OFF = "BackOff"
    SUSPENDING = "Suspending"
    CANCELLING = "Cancelling"
    SUCCEEDED = "Succeeded"
    CANCELLED_BY_USER = "CancelledByUser"
    NOT_FINISHED = "NotFinished"
    NOT_NEEDED = "NotNeeded"
    CHECKPOINT_SAVED = "CheckpointSaved"
    # Waiting
    QUEUED = "Queued"
    SESSION_BUSY = "SessionBusy"
    IMAGE_PULL = "ImagePull"
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    CONTAINER_CONFIG = "ContainerConfig"
    POD_NAME_CONFLICT = "PodNameConflict"
    APPROVAL_PENDING = "ApprovalPending"
    SUSPENDED_BY_USER = "SuspendedByUser"
    BUDGET_EXCEEDED = "BudgetExceeded"
    MODEL_UNAVAILABLE = "ModelUnavailable"
    TOOL_SERVER_UNAVAILABLE = "ToolServerUnavailable"
    CHECKPOINT_NEWER = "CheckpointNewer"
    STORE_REGRESSED = "StoreRegressed"
    STORE_UNAVAILABLE = "StoreUnavailable"
    APPROVAL_IDENTITY_UNVERIFIED = "ApprovalIdentityUnverified"
    # Ends
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    RETRIES_EXHAUSTED = "RetriesExhausted"
    NO_PROGRESS = "NoProgress"
    CHECKPOINT_CORRUPT = "CheckpointCorrupt"
    TOOL_OUTCOME_UNKNOWN = "ToolOutcomeUnknown"
    MODEL_ERROR = "ModelError"
    AGENT_FAILED = "AgentFailed"
    MAX_TURNS_EXCEEDED = "MaxTurnsExceeded"
    SAVE_FAILED = "SaveFailed"
    BAD_CONFIGURATION = "BadConfiguration"
    APPROVAL_DENIED = "ApprovalDenied"
    APPROVAL_EXPIRED = "ApprovalExpired"
    REVOKED = "Revoked"
    INVALID_SPEC = "InvalidSpec"
    # Approvals
    DECIDED = "Decided"
    CONSUMED = "Consumed"
    EXPIRED = "Expired"
    STALE = "Stale"
    CLOSED = "Closed"


class ConditionType(StrEnum):
    """Condition types of AgentRun and, last two, of Approval."""

    READY = "Ready"
    SUCCEEDED = "Succeeded"
    FINISHED = "Finished"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    AWAITING_APPROVAL = "AwaitingApproval"
    CHECKPOINT_HEALTHY = "CheckpointHealthy"
    DECIDED = "Decided"
    CONSUMED = "Consumed"


class ConditionStatus(StrEnum):
    """Kubernetes' three-valued truth."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


ConditionWord = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$")
]


class Condition(ApiModel):
    """One condition, in the six standard fields.

    Type and reason are strings: other programs may add conditions of their own, and a newer
    release may have written a reason that this one does not know.
    """

    model_config = ConfigDict(extra="ignore")

    type: ConditionWord = Field(description="What is being said.")
    status: ConditionStatus = Field(description="Whether it holds.")
    reason: ConditionWord = Field(description="Why, one CamelCase word.")
    message: Annotated[str, Field(max_length=512)] = Field("", description="Why, for people.")
    last_transition_time: Time = Field(description="When status last changed.")
    observed_generation: Count = Field(0, description="Generation that this was concluded from.")
