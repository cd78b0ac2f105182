"""Questions to people and their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrun.run.fold.refuse import corrupt, open_call
from agentrun.run.records import ApprovalDecision, ApprovalRequest, Record
from agentrun.run.state import Approval, CallPhase, State


def approval_request(state: State, record: ApprovalRequest) -> None:
    """A call waits for a person. The ordinal counts the questions about this call (H67)."""
    call = open_call(state, record.boundary)
    if record.id in state.approvals or record.ordinal != call.questions + 1:
        raise corrupt(f"question {record.ordinal} after {call.questions}", record.boundary)
    if call.phase not in (CallPhase.REQUESTED, CallPhase.UNKNOWN):
        raise corrupt(f"a question about a call in phase {call.phase}", record.boundary)
    state.approvals[record.id] = Approval(
        record.id, record.boundary, record.ordinal, record.content_hash
    )
    call.approval = record.id
    call.questions = record.ordinal
    call.phase = CallPhase.AWAITING_APPROVAL


def approval_decision(state: State, record: ApprovalDecision) -> None:
    """An answer reaches its own call, once, and only while nobody works on the run (H13)."""
    if state.suspended is None:
        raise corrupt("a decision in the middle of an attempt", record.id)
    approval = state.approvals.get(record.id)
    if approval is None or approval.decision is not None:
        raise corrupt("a decision without a question, or a second one", record.id)
    call = open_call(state, approval.boundary)
    if call.approval != record.id or call.phase is not CallPhase.AWAITING_APPROVAL:
        raise corrupt("a decision about a call that does not wait for it", approval.boundary)
    approval.decision, approval.decided_by = record.decision, record.decided_by
    if record.decision == "Approve":
        call.phase = CallPhase.APPROVED
        return
    call.phase = CallPhase.DENIED
    call.denied_because = record.reason


APPLY: dict[type[Record], Callable[[State, Any], None]] = {
    ApprovalRequest: approval_request,
    ApprovalDecision: approval_decision,
}
