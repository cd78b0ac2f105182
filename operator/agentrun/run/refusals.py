"""Calls that are not sent, or not sent again, and what the model is told about them.

What is said must be true for the model to go on from it: a call that may have had its effect is
never called undone.
"""

from __future__ import annotations

from agentrun.run.approvals import content_hash, tool_content
from agentrun.run.policy import RERUN_MAX, offer_of
from agentrun.run.records import ResultOrigin
from agentrun.run.schema import schema_problem
from agentrun.run.state import Approval, Call, CallPhase, State
from agentrun.run.steps import RefuseCall

PERHAPS = "It may or may not have had its effect."


def refusal(state: State, agent: str, call: Call) -> RefuseCall | None:
    """Why a call gets a result without being sent, or None if it may be sent."""
    if call.phase is CallPhase.DENIED:
        return _denied(state.approvals.get(call.approval or ""), call)
    if call.phase is CallPhase.UNKNOWN and call.starts >= RERUN_MAX:
        return _unknown(call, f"The tool did not answer {call.starts} times")
    found = _unsendable(state, agent, call)
    if found is None:
        return None
    origin, why = found
    if call.starts:
        return _unknown(call, f"The tool did not answer, and the call cannot be repeated: {why}")
    if call.phase is CallPhase.APPROVED:
        return RefuseCall(call.id, "stale", f"The call was approved, but cannot be made now: {why}")
    return RefuseCall(call.id, origin, why)


def _denied(approval: Approval | None, call: Call) -> RefuseCall:
    stale = approval is not None and approval.decision == "Stale"
    if stale:
        words = "What was reviewed is not current any more"
    else:
        words = (
            "A person denied this call"
            if approval and approval.decided_by
            else "This call was denied"
        )
    words += f"; it was not made again. {PERHAPS}" if call.starts else "; it was not made."
    if call.denied_because:
        words += f" Reason given: {call.denied_because}"
    return RefuseCall(call.id, "stale" if stale else "denied", words)


def _unknown(call: Call, why: str) -> RefuseCall:
    return RefuseCall(call.id, "unknown", f"{why.rstrip('.')}. {PERHAPS}")


def _unsendable(state: State, agent: str, call: Call) -> tuple[ResultOrigin, str] | None:
    """As (origin, message): what keeps a call with this content from being sent now.

    A reply that was cut at its token limit may hold half an argument.
    """
    offer = offer_of(state, agent, call.tool) if call.tool else None
    if offer is None:
        return "unavailable", f"There is no tool named {call.name!r}."
    if state.conversations[call.id.path].stop_reason == "max_tokens":
        return "invalid", "The reply was cut at its token limit; the call was not made. Repeat it."
    why = schema_problem(offer.input_schema, call.arguments)
    if why is not None:
        return "invalid", f"The arguments do not fit the tool's schema: {why}"
    if call.phase is CallPhase.APPROVED and not _as_reviewed(state, agent, call):
        return "stale", "it is not what was reviewed."
    return None


def _as_reviewed(state: State, agent: str, call: Call) -> bool:
    """The decision is bound to content; the call that it lets through must be that content."""
    content = tool_content(state.run_uid, agent, call)
    reviewed = state.approvals[call.approval or ""].content_hash
    return content_hash("Tool", str(call.id), content) == reviewed
