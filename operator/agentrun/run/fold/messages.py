"""Conversations: user messages, replies, the calls they ask for, and the end of a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrun.run import totals
from agentrun.run.conversation import tool_uses
from agentrun.run.fold.refuse import conversation_of, corrupt, task_of
from agentrun.run.identity import CallId, task_of_path
from agentrun.run.messages import with_notices, with_results
from agentrun.run.records import (
    AssistantMessage,
    BookmarkSaved,
    ContentSanitized,
    LlmRequest,
    Record,
    ToolCall,
    TurnEnd,
    UserMessage,
)
from agentrun.run.state import (
    Call,
    CallPhase,
    Conversation,
    ConversationPhase,
    State,
    TaskPhase,
)

PAUSED = "pause_turn"
"""Stop reason after which the model is called again with the conversation as it is."""


def user_message(state: State, record: UserMessage) -> None:
    """An input opens a conversation; tool results close its open round."""
    if record.origin == "input":
        _open(state, record)
        return
    conversation = conversation_of(state, record.conversation)
    if conversation.phase is not ConversationPhase.EXECUTING_TOOLS:
        raise corrupt("tool results without an open round", record.conversation)
    if any(call.phase is not CallPhase.COMMITTED for call in conversation.calls):
        raise corrupt("the round closes before all calls have results", record.conversation)
    conversation.messages.append(with_results(conversation.calls, conversation.notices))
    conversation.calls, conversation.notices = [], []
    conversation.phase = ConversationPhase.AWAITING_MODEL


def _open(state: State, record: UserMessage) -> None:
    task = task_of(state, task_of_path(record.conversation))
    if task.phase is not TaskPhase.IN_PROGRESS:
        raise corrupt(f"input to a task in phase {task.phase}", record.conversation)
    if record.conversation in state.conversations:
        raise corrupt("the conversation opens twice", record.conversation)
    state.conversations[record.conversation] = Conversation(
        record.conversation,
        task.agent,
        task.try_,
        messages=[{"role": "user", "content": record.content}],
    )


def llm_request(state: State, record: LlmRequest) -> None:
    """What was sent; the reply follows in the same commit. The notices that it carried become part
    of the conversation, so that this is what the model saw."""
    conversation = conversation_of(state, record.conversation)
    if (
        conversation.phase is not ConversationPhase.AWAITING_MODEL
        or record.turn != conversation.turn + 1
    ):
        raise corrupt(f"request {record.turn} after turn {conversation.turn}", record.conversation)
    if record.notices > len(conversation.notices):
        raise corrupt("a request with notices that nobody gave", record.conversation)
    if record.notices:
        conversation.messages = with_notices(
            conversation.messages, conversation.notices[: record.notices]
        )
        conversation.notices = conversation.notices[record.notices :]


def assistant_message(state: State, record: AssistantMessage) -> None:
    """A reply: it opens a round if it asks for tools, and ends the conversation if not."""
    conversation = conversation_of(state, record.conversation)
    if (
        conversation.phase is not ConversationPhase.AWAITING_MODEL
        or record.turn != conversation.turn + 1
    ):
        raise corrupt(f"reply {record.turn} after turn {conversation.turn}", record.conversation)
    conversation.messages.append({"role": "assistant", "content": record.content})
    conversation.turn, conversation.stop_reason = record.turn, record.stop_reason
    totals.count(conversation.totals, record)
    totals.count(state.totals, record)
    state.model_ever_answered = True
    if tool_uses(record.content):
        conversation.phase = ConversationPhase.EXECUTING_TOOLS
    elif record.stop_reason != PAUSED:
        conversation.phase = ConversationPhase.COMPLETED


def tool_call(state: State, record: ToolCall) -> None:
    """A requested call; :func:`whole_reply` compares it with what the reply asked for."""
    conversation = conversation_of(state, record.conversation)
    index = len(conversation.calls)
    if (
        conversation.phase is not ConversationPhase.EXECUTING_TOOLS
        or record.turn != conversation.turn
        or record.index != index
    ):
        raise corrupt("a call that no reply asked for", record.conversation)
    conversation.calls.append(
        Call(
            CallId(conversation.path, conversation.try_, record.turn, index),
            record.id,
            record.name,
            record.tool,
            record.arguments,
            record.raw,
        )
    )


def whole_reply(state: State, path: str) -> None:
    """A reply and its calls are in one commit: all of them, in its order, and no others (H1)."""
    conversation = state.conversations[path]
    content = conversation.messages[-1]["content"]
    asked = [(block.get("id"), block.get("name")) for block in tool_uses(content)]
    if asked != [(call.model_id, call.name) for call in conversation.calls]:
        raise corrupt("a reply without all of its calls, or with others", conversation.path)


def turn_end(state: State, record: TurnEnd) -> None:
    """Bookkeeping of the record; it must agree with the state."""
    conversation = conversation_of(state, record.conversation)
    fits = {
        "tool_use": conversation.phase is ConversationPhase.AWAITING_MODEL,
        "completed": conversation.phase is ConversationPhase.COMPLETED,
        "failed": True,
    }[record.outcome]
    if not fits or record.turn != conversation.turn:
        raise corrupt(
            f"turn {record.turn} ends {record.outcome} in {conversation.phase}", conversation.path
        )


def bookmark_saved(state: State, record: BookmarkSaved) -> None:
    """One bookmark per run, the latest."""
    state.bookmark = record


def content_sanitized(state: State, record: ContentSanitized) -> None:
    """A note for the reader of the record."""


APPLY: dict[type[Record], Callable[[State, Any], None]] = {
    UserMessage: user_message,
    LlmRequest: llm_request,
    AssistantMessage: assistant_message,
    ToolCall: tool_call,
    TurnEnd: turn_end,
    BookmarkSaved: bookmark_saved,
    ContentSanitized: content_sanitized,
}
WHOLE: dict[type[Record], tuple[str, Callable[[State, str], None]]] = {
    AssistantMessage: ("conversation", whole_reply),
    ToolCall: ("conversation", whole_reply),
}
