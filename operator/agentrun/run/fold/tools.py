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
from agentrun.run.state import Call, CallPhase, ConversationPhase, State

NOT_SENT = ("denied", "stale")
"""Origins of results of calls that a decision stopped."""


def toolset_offered(state: State, record: ToolsetOffered) -> None:
    """The agent's tools from the next request on."""
    state.toolsets[record.agent] = record.tools


def tool_start(state: State, record: ToolStart) -> None:
    """The call is about to be sent for the ``ordinal``-th time."""
    call = _sendable(state, record.call)
    if record.ordinal != call.starts + 1:
        raise corrupt(f"start {record.ordinal} after {call.starts}", record.call)
    call.starts = record.ordinal
    call.phase = CallPhase.STARTED


def tool_unknown(state: State, record: ToolUnknown) -> None:
    """The call was sent and nobody knows what came of it."""
    call = _sendable(state, record.call)
    started = call.starts if call.phase is CallPhase.STARTED else call.starts + 1
    if record.ordinal != started:
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
    if call.phase is CallPhase.DENIED and record.origin not in NOT_SENT:
        raise corrupt("a denied call was sent", record.call)
    call.phase = CallPhase.COMMITTED
    call.result, call.is_error = record.content, record.is_error
    totals.count(state.conversations[call.id.path].totals, record)
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
    """A server lost its state: its files are gone, and every open conversation will be told.

    Said twice in a row it is one notice: each attempt of a crash loop may begin with it.
    """
    state.files.pop(record.server, None)
    notice = (
        f"The tool server {record.server!r} was restarted: {record.why}. What it held in its memory "
        "or in its own container before this message is gone."
    )
    for conversation in state.conversations.values():
        if (
            conversation.phase is not ConversationPhase.COMPLETED
            and notice not in conversation.notices
        ):
            conversation.notices.append(notice)


def _sendable(state: State, identity: str) -> Call:
    """A call that may leave: it has no result, and no decision keeps it back."""
    call = open_call(state, identity)
    if call.phase in (CallPhase.COMMITTED, CallPhase.AWAITING_APPROVAL, CallPhase.DENIED):
        raise corrupt(f"a call was sent in phase {call.phase}", identity)
    return call


APPLY: dict[type[Record], Callable[[State, Any], None]] = {
    ToolsetOffered: toolset_offered,
    ToolStart: tool_start,
    ToolUnknown: tool_unknown,
    ToolResult: tool_result,
    WorkspaceChanged: workspace_changed,
    EnvironmentReset: environment_reset,
}
