"""Conversations: user messages, replies, the calls they ask for, and the end of a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrun.run import totals
from agentrun.run.conversation import tool_uses
from agentrun.run.fold.refuse import conversation_of, corrupt, task_of
from agentrun.run.identity import CallId
from agentrun.run.records import (
    AssistantMessage,
    BookmarkSaved,
    ContentSanitized,
    LlmRequest,
    Record,
    ToolCall,
    TurnEnd,
    Usage,
    UserMessage,
)
from agentrun.run.results import result_blocks
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
    talk = conversation_of(state, record.conversation)
    if talk.phase is not ConversationPhase.EXECUTING_TOOLS:
        raise corrupt("tool results without an open round", record.conversation)
    if any(call.phase is not CallPhase.COMMITTED for call in talk.calls):
        raise corrupt("the round closes before all calls have results", record.conversation)
    talk.messages.append({"role": "user", "content": result_blocks(talk)})
    talk.calls, talk.notices = [], []
    talk.phase = ConversationPhase.AWAITING_MODEL


def _open(state: State, record: UserMessage) -> None:
    task = task_of(state, record.conversation.split("/", 1)[0])
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
    """What was sent; the reply follows in the same commit."""
    talk = conversation_of(state, record.conversation)
    talk.last_request_hash = record.request_hash


def assistant_message(state: State, record: AssistantMessage) -> None:
    """A reply: it opens a round if it asks for tools, and ends the conversation if not."""
    talk = conversation_of(state, record.conversation)
    if talk.phase is not ConversationPhase.AWAITING_MODEL or record.turn != talk.turn + 1:
        raise corrupt(f"reply {record.turn} after turn {talk.turn}", record.conversation)
    talk.messages.append({"role": "assistant", "content": record.content})
    talk.turn, talk.stop_reason = record.turn, record.stop_reason
    talk.usage = _sum(talk.usage, record.usage)
    totals.count(state.totals, record)
    state.model_ever_answered = True
    if tool_uses(record.content):
        talk.phase = ConversationPhase.EXECUTING_TOOLS
    elif record.stop_reason != PAUSED:
        talk.phase = ConversationPhase.COMPLETED


def tool_call(state: State, record: ToolCall) -> None:
    """A requested call; it must be the next tool_use of the reply, in order."""
    talk = conversation_of(state, record.conversation)
    asked = tool_uses(talk.messages[-1].get("content"))
    index = len(talk.calls)
    if (
        talk.phase is not ConversationPhase.EXECUTING_TOOLS
        or record.turn != talk.turn
        or record.index != index
        or index >= len(asked)
        or asked[index].get("id") != record.id
        or asked[index].get("name") != record.name
    ):
        raise corrupt("a call that the reply did not ask for", record.conversation)
    talk.calls.append(
        Call(
            CallId(talk.path, talk.try_, record.turn, index),
            record.id,
            record.name,
            record.tool,
            record.arguments,
            record.raw,
        )
    )


def turn_end(state: State, record: TurnEnd) -> None:
    """Bookkeeping of the record; it must agree with the state."""
    talk = conversation_of(state, record.conversation)
    fits = {
        "tool_use": talk.phase is ConversationPhase.AWAITING_MODEL,
        "completed": talk.phase is ConversationPhase.COMPLETED,
        "failed": True,
    }[record.outcome]
    if not fits or record.turn != talk.turn:
        raise corrupt(f"turn {record.turn} ends {record.outcome} in {talk.phase}", talk.path)


def bookmark_saved(state: State, record: BookmarkSaved) -> None:
    """One bookmark per run, the latest."""
    state.bookmark = record.model_dump(by_alias=True, exclude={"type"})


def content_sanitized(state: State, record: ContentSanitized) -> None:
    """A note for the reader of the record."""


def check_commit(state: State) -> None:
    """A commit is whole: the reply's calls are all in it, or none were asked for."""
    for talk in state.conversations.values():
        if talk.phase is ConversationPhase.EXECUTING_TOOLS and len(talk.calls) != len(
            tool_uses(talk.messages[-1].get("content"))
        ):
            raise corrupt("a reply without all of its calls", talk.path)


def _sum(left: Usage, right: Usage) -> Usage:
    return Usage(
        input_tokens=left.input_tokens + right.input_tokens,
        output_tokens=left.output_tokens + right.output_tokens,
        cache_read_tokens=left.cache_read_tokens + right.cache_read_tokens,
        cache_write_tokens=left.cache_write_tokens + right.cache_write_tokens,
    )


APPLY: dict[type[Record], Callable[[State, Any], None]] = {
    UserMessage: user_message,
    LlmRequest: llm_request,
    AssistantMessage: assistant_message,
    ToolCall: tool_call,
    TurnEnd: turn_end,
    BookmarkSaved: bookmark_saved,
    ContentSanitized: content_sanitized,
}
