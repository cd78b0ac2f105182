"""How the fold refuses, and the look-ups that refuse."""

from __future__ import annotations

from agentrun.errors import CheckpointCorrupt
from agentrun.run.identity import CallId
from agentrun.run.state import Call, Conversation, ConversationPhase, State, Task


def corrupt(why: str, on: str = "") -> CheckpointCorrupt:
    """The error for a record that does not fit the state before it."""
    return CheckpointCorrupt(
        why,
        attempted="fold a record",
        on=on,
        advice="Nothing was executed. Restore the database from a backup, or start a new run.",
    )


def conversation_of(state: State, path: str) -> Conversation:
    """The conversation, which must exist."""
    conversation = state.conversations.get(path)
    if conversation is None:
        raise corrupt("no such conversation", path)
    return conversation


def task_of(state: State, task: str) -> Task:
    """The task, which must exist."""
    found = state.tasks.get(task)
    if found is None:
        raise corrupt("no such task", task)
    return found


def open_call(state: State, identity: str) -> Call:
    """The call, which must be of an open round and have no result yet."""
    try:
        call_id = CallId.parse(identity)
    except ValueError:
        raise corrupt("not a call identity", identity) from None
    conversation = conversation_of(state, call_id.path)
    if conversation.phase is not ConversationPhase.EXECUTING_TOOLS:
        raise corrupt("no round is open", identity)
    if (
        not 0 <= call_id.index < len(conversation.calls)
        or conversation.calls[call_id.index].id != call_id
    ):
        raise corrupt("no such call in the open round", identity)
    return conversation.calls[call_id.index]
