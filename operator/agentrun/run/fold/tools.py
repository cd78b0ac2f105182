"""Tools: what is offered, calls that start, answer or fall silent, and the files they leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrun.run import totals
from agentrun.run.fold.refuse import corrupt, open_call
from agentrun.run.records import (
    EnvironmentReset,
    Record,
    ToolResult,
    ToolsetOffered,
    ToolStart,
    ToolUnknown,
    WorkspaceChanged,
)
from agentrun.run.state import CallPhase, ConversationPhase, State


def toolset_offered(state: State, record: ToolsetOffered) -> None:
    """The agent's tools from the next request on."""
    state.toolsets[record.agent] = record.tools


def tool_start(state: State, record: ToolStart) -> None:
    """The call is about to be sent for the ``ordinal``-th time."""
    call = open_call(state, record.call)
    if call.phase is CallPhase.COMMITTED or record.ordinal != call.starts + 1:
        raise corrupt(f"start {record.ordinal} after {call.starts}", record.call)
    call.starts = record.ordinal
    call.phase = CallPhase.STARTED


def tool_unknown(state: State, record: ToolUnknown) -> None:
    """The call was sent and nobody knows what came of it."""
    call = open_call(state, record.call)
    if call.phase is CallPhase.COMMITTED or record.ordinal not in (call.starts, call.starts + 1):
        raise corrupt(f"start {record.ordinal} unknown after {call.starts}", record.call)
    call.starts = record.ordinal
    call.phase = CallPhase.UNKNOWN


def tool_result(state: State, record: ToolResult) -> None:
    """The one result of a call (the database refuses a second one as well)."""
    call = open_call(state, record.call)
    if call.phase is CallPhase.COMMITTED:
        raise corrupt("a second result", record.call)
    if call.phase is CallPhase.AWAITING_APPROVAL:
        raise corrupt("a result before the decision", record.call)
    if call.phase is CallPhase.DENIED and record.origin == "server":
        raise corrupt("a denied call was sent", record.call)
    call.phase = CallPhase.COMMITTED
    call.result, call.is_error = record.content, record.is_error
    totals.count(state.totals, record)


def workspace_changed(state: State, record: WorkspaceChanged) -> None:
    """Files of a workspace as they are now."""
    files = state.files.setdefault(record.server, {})
    for change in record.changes:
        if change.sha256 is None:
            files.pop(change.path, None)
        else:
            files[change.path] = (change.sha256, change.size, change.mode)


def environment_reset(state: State, record: EnvironmentReset) -> None:
    """A server lost its state: its files are gone, and every open conversation will be told."""
    state.files.pop(record.server, None)
    notice = (
        f"The tool server {record.server!r} was restarted and lost its state: {record.why}. "
        "Anything it held before this message is gone."
    )
    for talk in state.conversations.values():
        if talk.phase is ConversationPhase.EXECUTING_TOOLS:
            talk.notices.append(notice)
        elif talk.phase is ConversationPhase.AWAITING_MODEL:
            _tell(talk.messages, notice)


def _tell(messages: list[Any], notice: str) -> None:
    """Add a text to the last user message (which is there: the conversation awaits the model)."""
    last = messages[-1]
    if last.get("role") == "user":
        content = last["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        messages[-1] = {"role": "user", "content": [*blocks, {"type": "text", "text": notice}]}
    else:
        messages.append({"role": "user", "content": [{"type": "text", "text": notice}]})


APPLY: dict[type[Record], Callable[[State, Any], None]] = {
    ToolsetOffered: toolset_offered,
    ToolStart: tool_start,
    ToolUnknown: tool_unknown,
    ToolResult: tool_result,
    WorkspaceChanged: workspace_changed,
    EnvironmentReset: environment_reset,
}
