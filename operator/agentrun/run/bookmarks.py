"""The bookmark: where a conversation last completed a boundary."""

from __future__ import annotations

from typing import Literal

from agentrun.run.records import BookmarkSaved
from agentrun.run.state import Conversation


def bookmark(
    conversation: Conversation,
    position: Literal["after_model", "after_tools"],
    message_count: int,
    *,
    completed: bool = False,
) -> BookmarkSaved:
    """Seven fields; the cycle is counted from 0, the time is the commit's own."""
    return BookmarkSaved(
        position=position,
        cycle_index=max(conversation.turn - 1, 0)
        if position == "after_tools"
        else conversation.turn,
        message_count=message_count,
        agent_id=conversation.agent,
        execution_status="completed" if completed else "active",
    )
