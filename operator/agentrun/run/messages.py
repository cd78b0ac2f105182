"""User messages of a running conversation: the results of a round, and what must be said with them.

Messages are never changed in place: a snapshot that is being written may share them.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrun.run.records import Json
from agentrun.run.state import Call


def with_results(calls: Sequence[Call], notices: Sequence[str]) -> Json:
    """The message that answers a round, results in request order. They come first, as the model's
    API demands."""
    return {"role": "user", "content": [*(_result(call) for call in calls), *_texts(notices)]}


def with_notices(messages: list[Json], notices: Sequence[str]) -> list[Json]:
    """The conversation with notices in its last user message, or in one of their own."""
    last = messages[-1]
    if last["role"] != "user":
        return [*messages, {"role": "user", "content": _texts(notices)}]
    said = {"role": "user", "content": [*blocks_of(last["content"]), *_texts(notices)]}
    return [*messages[:-1], said]


def blocks_of(content: Json) -> list[Json]:
    """Content as a list of blocks, whichever of the two forms it has."""
    if isinstance(content, str):
        return _texts([content])
    return content if isinstance(content, list) else []


def _texts(texts: Sequence[str]) -> list[Json]:
    return [{"type": "text", "text": text} for text in texts]


def _result(call: Call) -> Json:
    block: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": call.model_id,
        "content": call.result,
    }
    if call.is_error:
        block["is_error"] = True
    return block
