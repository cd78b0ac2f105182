"""The Approval object of a question, made from its row and compared with it (pure).

What a person decides is bound to the row's content, so the object is only a way of showing it: an
object that shows anything else is never consumed as it is (H38).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from agentrun.api import (
    AgentRun,
    AgentRunSpec,
    Approval,
    ApprovalContent,
    ApprovalPolicy,
    ApprovalSpec,
    ApprovalState,
    ApprovalStatus,
    Decision,
    ObjectMeta,
    OwnerReference,
    RunRef,
    Scope,
)
from agentrun.api.approval import CONTENT_MAX
from agentrun.api.bounds import AGENT
from agentrun.api.names import approval_name, run_labels
from agentrun.cluster.owner import owner_reference
from agentrun.run.exact import parse_json
from agentrun.store.rows import ApprovalRow

STATE_OF = {
    Decision.APPROVE: ApprovalState.APPROVED,
    Decision.DENY: ApprovalState.DENIED,
    Decision.ANSWER: ApprovalState.ANSWERED,
    Decision.USE_RESULT: ApprovalState.ANSWERED,
    Decision.RUN_AGAIN: ApprovalState.APPROVED,
    Decision.FAIL: ApprovalState.DENIED,
}
NOTE_MAX = 1024
AGENT_MAX = 63


def approval_object(run: AgentRun, spec: AgentRunSpec, request: ApprovalRow) -> Approval:
    """What the operator creates: undecided, owned by the run, found again by its name."""
    meta = run.metadata
    gates = spec.approvals
    expires = gates.expires_after_seconds
    return Approval(
        metadata=ObjectMeta(
            name=approval_name(meta.name, request.id),
            namespace=meta.namespace,
            labels=run_labels(meta.name, request.run_uid, component="approval"),
            owner_references=(OwnerReference.model_validate(owner_reference(run)),),
        ),
        spec=ApprovalSpec(
            run_ref=RunRef(name=meta.name, uid=meta.uid),
            scope=Scope(request.scope),
            boundary=request.boundary,
            content_hash=request.content_hash,
            content=content_of(request),
            reason=request.reason[:NOTE_MAX],
            policy=ApprovalPolicy(
                users=gates.approvers.users,
                groups=gates.approvers.groups,
                not_user=spec.requested_by if gates.separation_of_duties else "",
            ),
            requested_at=request.requested_at,
            expires_at=request.requested_at + timedelta(seconds=expires) if expires else None,
        ),
    )


def content_of(request: ApprovalRow) -> ApprovalContent:
    """The part of the row's content that is shown; longer text is cut and marked truncated."""
    fields = _fields(request.content)
    arguments, text = _text(fields.get("argumentsJSON")), _text(fields.get("text"))
    return ApprovalContent(
        tool=_text(fields.get("tool"))[:192],
        arguments_json=arguments[:CONTENT_MAX],
        agent=_agent(_text(fields.get("agent"))),
        task=_text(fields.get("task"))[:63],
        call_id=_text(fields.get("callId"))[:256],
        text=text[:CONTENT_MAX],
        truncated=max(len(arguments), len(text)) > CONTENT_MAX,
    )


def asks_the_same(approval: Approval, request: ApprovalRow) -> bool:
    """Whether the object shows exactly what the row asks."""
    spec = approval.spec
    return (
        spec.scope == request.scope
        and spec.boundary == request.boundary
        and spec.content_hash == request.content_hash
        and spec.content == content_of(request)
    )


def state_of(approval: Approval) -> ApprovalState:
    """The state it shows now."""
    return (approval.status or ApprovalStatus()).state


def decided_state(approval: Approval) -> ApprovalState:
    """What its decision comes to; Closed when nobody decided."""
    decision = approval.spec.decision
    return ApprovalState.CLOSED if decision is None else STATE_OF[decision]


def _fields(content: bytes) -> Mapping[str, object]:
    """A runner wrote them: what is no JSON is shown as such, not met with an error for ever."""
    try:
        value = parse_json(content)
    except ValueError:
        return {"text": "[the content is not JSON and cannot be shown]"}
    return value if isinstance(value, dict) else {"text": value}


def _agent(name: str) -> str:
    return name if len(name) <= AGENT_MAX and re.fullmatch(AGENT, name) else ""


def _text(value: object) -> str:
    """Text as the API server takes it: a lone surrogate is no character."""
    text = value if isinstance(value, str) else ""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
