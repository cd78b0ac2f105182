"""``Approval``: one question to a person, bound to the exact content that is reviewed.

Decision fields change once and together; everything else of the spec never changes (hazards H37 to
H39). Arguments are a JSON *string*, because rules do not see changes inside schemaless objects.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from agentrun.api.base import ApiModel, keyed
from agentrun.api.bounds import (
    Count,
    Flag,
    Hex64,
    Line,
    Note,
    ObjectName,
    OptionalAgentName,
    Text,
    Time,
    ToolName,
    User,
)
from agentrun.api.conditions import Condition
from agentrun.api.gates import Approvers
from agentrun.api.meta import ObjectMeta
from agentrun.api.names import API_VERSION, APPROVAL_KIND
from agentrun.api.status import StatusModel

CONTENT_MAX = 262_144
"""Characters of arguments or text that are shown whole; longer content is marked truncated."""

DECISION_FIELDS: Final = ("decision", "decision_reason", "answer", "decided_by")

Content = Annotated[str, Field(max_length=CONTENT_MAX)]


class Scope(StrEnum):
    """What is being asked."""

    TOOL = "Tool"
    PLAN = "Plan"
    ROUND = "Round"
    TASK = "Task"
    OUTCOME = "Outcome"
    QUESTION = "Question"


class Decision(StrEnum):
    """What a person answers."""

    APPROVE = "Approve"
    DENY = "Deny"
    ANSWER = "Answer"
    USE_RESULT = "UseResult"
    RUN_AGAIN = "RunAgain"
    FAIL = "Fail"


DECISIONS: Final[dict[Scope, tuple[Decision, ...]]] = {
    Scope.TOOL: (Decision.APPROVE, Decision.DENY),
    Scope.PLAN: (Decision.APPROVE, Decision.DENY),
    Scope.ROUND: (Decision.APPROVE, Decision.DENY),
    Scope.TASK: (Decision.APPROVE, Decision.DENY),
    Scope.OUTCOME: (Decision.USE_RESULT, Decision.RUN_AGAIN, Decision.FAIL),
    Scope.QUESTION: (Decision.ANSWER, Decision.DENY),
}
"""The decisions that fit each scope."""

ANSWERED: Final = (Decision.ANSWER, Decision.USE_RESULT)
"""The decisions that carry an answer."""


class ApprovalState(StrEnum):
    """What became of the question."""

    PENDING = "Pending"
    APPROVED = "Approved"
    DENIED = "Denied"
    ANSWERED = "Answered"
    EXPIRED = "Expired"
    STALE = "Stale"
    CLOSED = "Closed"


class RunRef(ApiModel):
    """The run that asks."""

    name: ObjectName = Field(description="Name of the AgentRun.")
    uid: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="UID of the AgentRun object."
    )


class ApprovalContent(ApiModel):
    """What is reviewed."""

    tool: ToolName = Field("", description="The tool, as server.tool.")
    arguments_json: Content = Field(
        "", alias="argumentsJSON", description="Its arguments as JSON text."
    )
    agent: OptionalAgentName = Field("", description="Agent that asks.")
    task: Annotated[str, Field(max_length=63)] = Field("", description="Task it works on.")
    call_id: Line = Field("", description="The model's id of the call.")
    text: Content = Field("", description="The plan, the question, or what else is reviewed.")
    truncated: Flag = Field(
        False, description="Longer than what fits here; decide with the command line."
    )


class ApprovalPolicy(Approvers):
    """Who may decide this one."""

    not_user: User = Field("", description="User who may not decide, who started the run.")


class ApprovalSpec(ApiModel):
    """The question, and the decision once there is one."""

    run_ref: RunRef = Field(description="The run that asks.")
    scope: Scope = Field(description="What is being asked.")
    boundary: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        description="Identity of the call, or the task, round or plan."
    )
    content_hash: Hex64 = Field(
        description="sha256 of the canonical JSON of scope, boundary and content."
    )
    content: ApprovalContent = Field(ApprovalContent(), description="What is reviewed.")
    reason: Note = Field("", description="Why a person is asked.")
    policy: ApprovalPolicy = Field(ApprovalPolicy(), description="Who may decide.")
    requested_at: Time | None = Field(None, description="When it was asked.")
    expires_at: Time | None = Field(None, description="When it expires; absent: never.")
    decision: Decision | None = Field(
        None, description="The decision, given once, one that fits the scope."
    )
    decision_reason: Note = Field("", description="Why it was decided so.")
    answer: Text = Field("", description="With Answer and UseResult: the answer.")
    decided_by: User = Field(
        "", description="Who decided; stamped by the API server from the authenticated user."
    )


class ApprovalStatus(StatusModel):
    """What became of the question."""

    state: ApprovalState = Field(ApprovalState.PENDING, description="What became of it.")
    decided_at: Time | None = Field(None, description="When it was decided.")
    consumed_at: Time | None = Field(None, description="When the run took the decision up.")
    consumed_by_attempt: Count | None = Field(None, description="Attempt that acts on it.")
    message: Annotated[str, Field(max_length=512)] = Field("", description="More, for people.")
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        (), description="Standard conditions.", json_schema_extra=keyed("type")
    )


class Approval(ApiModel):
    """One question to a person."""

    api_version: Literal["agentrun.dev/v1alpha1"] = Field(
        API_VERSION, description="Group and version."
    )
    kind: Literal["Approval"] = Field(APPROVAL_KIND, description="Kind of the object.")
    metadata: ObjectMeta = Field(description="Object metadata.")
    spec: ApprovalSpec = Field(description="The question and the decision.")
    status: ApprovalStatus | None = Field(None, description="What became of the question.")

    def to_dict(self) -> dict[str, Any]:
        """The object as the API server takes it."""
        return {"apiVersion": self.api_version, "kind": self.kind, **super().to_dict()}
