"""Whether a conversation is one that the model's API accepts.

Checked before every request and after every restore: a poisoned conversation is neither sent nor
silently repaired.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrun.errors import CheckpointCorrupt
from agentrun.run.records import Json


def tool_uses(content: Json) -> list[Json]:
    """The tool_use blocks of a message's content, in order."""
    return [
        block
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict) and block.get("type") == "tool_use"
    ]


def tool_results(content: Json) -> list[Json]:
    """The tool_result blocks of a message's content, in order."""
    return [
        block
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict) and block.get("type") == "tool_result"
    ]


def problem(messages: Sequence[Json]) -> str | None:
    """Why the model's API would refuse this, or None.

    Rules: user first; an assistant message follows a user message (two assistant messages in a row
    are allowed: a paused turn); each tool_use is answered in the next message, by one result each,
    in the order of the requests; no result answers nothing; ids do not repeat within a message.
    """
    expected: list[str] = []
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ("user", "assistant"):
            return f"message {index} has no role"
        if index == 0 and role != "user":
            return "the first message is not the user's"
        content = message.get("content")
        answered = [str(block.get("tool_use_id")) for block in tool_results(content)]
        if answered != expected:
            return f"message {index} answers {len(answered)} of {len(expected)} calls or in another order"
        expected = [str(block.get("id")) for block in tool_uses(content)]
        if role == "user" and expected:
            return f"message {index} is the user's and holds a tool_use"
        if len(set(expected)) != len(expected):
            return f"message {index} repeats a tool_use id"
    return None


def check(messages: Sequence[Json], path: str, *, open_round: bool) -> None:
    """Raise CheckpointCorrupt unless the conversation is valid.

    ``open_round``: the last message's calls are still being executed.
    """
    pending = tool_uses(messages[-1].get("content")) if messages else []
    why = problem(messages)
    if why is None and bool(pending) != open_round:
        why = "the last message has open calls" if pending else "no call is open"
    if why is not None:
        raise CheckpointCorrupt(
            f"invalid conversation: {why}",
            attempted="check a conversation",
            on=path,
            advice="Nothing was executed. Export the run and compare it with a backup.",
        )
