"""The user message that answers a round: results in request order, then what must be said."""

from __future__ import annotations

from agentrun.run.records import Json
from agentrun.run.state import Call, Conversation


def result_blocks(talk: Conversation) -> list[Json]:
    """Content of the message. Tool results come first, as the model's API demands."""
    blocks: list[Json] = [_result(call) for call in talk.calls]
    blocks.extend({"type": "text", "text": notice} for notice in talk.notices)
    return blocks


def _result(call: Call) -> Json:
    block: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": call.model_id,
        "content": call.result,
    }
    if call.is_error:
        block["is_error"] = True
    return block
