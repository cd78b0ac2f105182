"""Boundary 2: each tool call's own commit, and the call as it is sent."""

from __future__ import annotations

from agentrun.api import AgentRunSpec, OnUnknown
from agentrun.run.codec import oversized
from agentrun.run.exact import unfit
from agentrun.run.identity import CallId, call_key, result_ref, task_of_path
from agentrun.run.policy import policy_for
from agentrun.run.records import (
    ContentSanitized,
    Record,
    ToolResult,
    ToolStart,
    ToolUnknown,
    WorkspaceChanged,
)
from agentrun.run.state import Call, CallPhase, State
from agentrun.run.values import Boundary, OutgoingCall, ToolAnswer, ToolOutcome, ToolSilence


def call_of(state: State, call_id: CallId) -> Call:
    """The call of the open round; steps only name calls that are there."""
    return state.conversations[call_id.path].calls[call_id.index]


def outgoing(state: State, spec: AgentRunSpec, call_id: CallId) -> OutgoingCall:
    """The call with its key and what its server is told about the run."""
    call = call_of(state, call_id)
    server, _, tool = call.tool.partition(".")
    timeout = next(s.timeout_seconds for s in spec.tool_servers if s.name == server)
    return OutgoingCall(
        call=call_id,
        key=call_key(state.run_uid, call_id),
        model_id=call.model_id,
        server=server,
        tool=tool,
        arguments=call.arguments,
        task=task_of_path(call_id.path),
        agent=state.conversations[call_id.path].agent,
        attempt=state.attempt,
        run_uid=state.run_uid,
        run_id=spec.run_id or state.run_uid,
        timeout_ms=timeout * 1000,
    )


def tool_started(
    state: State, spec: AgentRunSpec, call_id: CallId, ordinal: int, timeout_ms: int
) -> Boundary | None:
    """The start record of a call whose unknown outcome is not simply run again; else None."""
    if policy_for(spec, call_of(state, call_id).tool).on_unknown is OnUnknown.RERUN:
        return None
    record = ToolStart(call=str(call_id), ordinal=ordinal, timeout_ms=timeout_ms)
    return Boundary("tool/start", None, (record,), strict=True)


def after_tool(state: State, call_id: CallId, outcome: ToolOutcome) -> Boundary:
    """The result, with the files it changed; or the fact that nobody knows (H3)."""
    if isinstance(outcome, ToolSilence):
        call = call_of(state, call_id)
        ordinal = call.starts if call.phase is CallPhase.STARTED else call.starts + 1
        unknown = ToolUnknown(call=str(call_id), ordinal=ordinal, why=outcome.why[:500])
        return Boundary("tool/unknown", None, (unknown,), strict=True)
    records: list[Record] = [_result(call_id, outcome)]
    if outcome.sanitized:
        records.append(ContentSanitized(where=str(call_id), count=outcome.sanitized))
    if outcome.changes:
        server = call_of(state, call_id).tool.partition(".")[0]
        records.append(WorkspaceChanged(server=server, changes=outcome.changes))
    return Boundary(
        "tool/result", result_ref(call_id), tuple(records), strict=False, blobs=outcome.blobs
    )


def _result(call_id: CallId, answer: ToolAnswer) -> ToolResult:
    """An answer that cannot be kept is still one: the call had its effect, and the model is told."""
    why = unfit(answer.content)
    if why is None:
        result = ToolResult(
            call=str(call_id),
            content=answer.content,
            is_error=answer.is_error,
            duration_ms=answer.duration_ms,
        )
        why = oversized(result)
        if why is None:
            return result
    text = f"The tool answered, so the call was made, but its answer cannot be kept: {why}."
    return ToolResult(
        call=str(call_id),
        content=[{"type": "text", "text": text}],
        is_error=True,
        duration_ms=answer.duration_ms,
        origin="unusable",
    )
