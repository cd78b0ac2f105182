"""What must be true of a run at every commit, said without the code under test."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentrun.run.as_json import state_to_json
from agentrun.run.exact import exact_json
from agentrun.run.records import AssistantMessage, Record, ToolResult
from agentrun.run.state import State, Totals


def same(left: State, right: State) -> bool:
    """Equal to the last code unit, whatever the two are made of."""
    return exact_json(state_to_json(left)) == exact_json(state_to_json(right))


def totals_of(records: Sequence[Record]) -> Totals:
    """The sums, from the records alone."""
    replies = [record for record in records if isinstance(record, AssistantMessage)]
    return Totals(
        turns=len(replies),
        tool_calls=sum(isinstance(record, ToolResult) for record in records),
        input_tokens=sum(reply.usage.input_tokens for reply in replies),
        output_tokens=sum(reply.usage.output_tokens for reply in replies),
        cache_read_tokens=sum(reply.usage.cache_read_tokens for reply in replies),
        cache_write_tokens=sum(reply.usage.cache_write_tokens for reply in replies),
        cost=sum(reply.cost for reply in replies),
    )


def refused(body: bytes) -> str | None:
    """Why the provider would refuse a request, or None. Its rules as they were met in practice."""
    try:
        request = json.loads(body.decode("ascii"))
        json.dumps(request, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return "half a character"
    messages = request["messages"]
    if not messages or messages[0]["role"] != "user":
        return "it does not begin with the user"
    open_calls: list[str] = []
    for message in messages:
        blocks = message["content"]
        if not isinstance(blocks, list) or not blocks:
            return "a message is empty"
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if answers != open_calls or any(
            block["type"] != "tool_result" for block in blocks[: len(answers)]
        ):
            return f"answers {answers} to calls {open_calls}"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(open_calls)) < len(open_calls):
            return "an id twice in one message"
        if open_calls and message["role"] != "assistant":
            return "the user calls a tool"
        inner = [
            part
            for block in blocks
            if block["type"] == "tool_result" and isinstance(block.get("content"), list)
            for part in block["content"]
        ]
        if any(b["type"] == "text" and not b["text"].strip() for b in [*blocks, *inner]):
            return "a text without text"
    return f"open calls {open_calls}" if open_calls else None
