"""What a request says, and whether the real API would accept its conversation.

The checks are those that a resumed run could break: a tool_use without its result, results out of
place, altered thinking, ids that repeat. Accepting such a request here would let a test pass that
fails in production.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentrun.devmodel.wire import genuine

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


class InvalidRequest(Exception):
    """The provider would answer 400 ``invalid_request_error`` with this message."""


@dataclass(frozen=True)
class Request:
    """The facts that matching and answering look at."""

    model: str
    system: str
    turn: int
    last_user: str
    tools: frozenset[str]
    stream: bool


def read_request(body: bytes) -> Request:
    """Parse and check a request body. Raises ``InvalidRequest``."""
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request body is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidRequest("The request body is not a JSON object")
    _need(isinstance(document.get("model"), str), "model: Field required")
    limit = document.get("max_tokens")
    _need(isinstance(limit, int) and limit > 0, "max_tokens: Field required, greater than 0")
    sent: Any = document.get("messages")
    _need(isinstance(sent, list) and bool(sent), "messages: at least one message is required")
    messages = [_message(message, index) for index, message in enumerate(sent)]
    _need(messages[0][0] == "user", "messages: first message must use the user role")
    _check_thinking(document, limit)
    _check_conversation(messages)
    users = [content for role, content in messages if role == "user"]
    return Request(
        model=document["model"],
        system=_text(document.get("system") or []),
        turn=sum(role == "assistant" for role, _ in messages),
        last_user=_text(users[-1]),
        tools=_tool_names(document.get("tools") or []),
        stream=document.get("stream") is True,
    )


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequest(message)


def _message(message: Any, index: int) -> tuple[str, list[dict[str, Any]]]:
    """A message as its role and a list of blocks, whichever of the two forms it was sent in."""
    _need(isinstance(message, dict), f"messages.{index}: Input should be an object")
    role, content = message.get("role"), message.get("content")
    _need(role in {"user", "assistant"}, f"messages.{index}.role: must be user or assistant")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    _need(isinstance(content, list), f"messages.{index}.content: must be a string or a list")
    for block in content:
        _need(isinstance(block, dict), f"messages.{index}.content: blocks must be objects")
        if block.get("type") == "text":
            _need(
                bool(block.get("text")), f"messages.{index}: text content blocks must be non-empty"
            )
    return role, content


def _check_thinking(document: dict[str, Any], limit: Any) -> None:
    thinking = document.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(budget, int):
        _need(budget >= 1024, "thinking.budget_tokens: must be at least 1024")
        _need(budget < limit, "`max_tokens` must be greater than `thinking.budget_tokens`")
        warm = document.get("temperature", 1) != 1
        _need(not warm, "`temperature` may only be set to 1 when thinking is enabled")


def _check_conversation(messages: list[tuple[str, list[dict[str, Any]]]]) -> None:
    """Every tool_use is answered first thing in the next message, and nothing else is."""
    asked: list[str] = []
    for index, (role, content) in enumerate(messages):
        answered = [str(b.get("tool_use_id")) for b in content if b.get("type") == "tool_result"]
        _check_answers(index, asked, answered, content)
        asked = []
        if role == "assistant":
            asked = [str(b.get("id")) for b in content if b.get("type") == "tool_use"]
            _check_assistant(index, asked, content)
    _need(not asked, f"messages.{len(messages) - 1}: {_unanswered(asked)}")


def _check_answers(
    index: int, asked: list[str], answered: list[str], content: list[dict[str, Any]]
) -> None:
    missing = [call for call in asked if call not in answered]
    _need(not missing, f"messages.{index}: {_unanswered(missing)}")
    for call in answered:
        _need(
            call in asked,
            f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {call}."
            " Each `tool_result` block must have a corresponding `tool_use` block in the previous"
            " message.",
        )
    _need(
        len(set(answered)) == len(answered),
        f"messages.{index}: each tool_use must have a single result",
    )
    leading = [b.get("type") == "tool_result" for b in content[: len(answered)]]
    _need(all(leading), f"messages.{index}: `tool_result` blocks must come first in the content")


def _check_assistant(index: int, asked: list[str], content: list[dict[str, Any]]) -> None:
    _need(len(set(asked)) == len(asked), f"messages.{index}: `tool_use` ids must be unique")
    for call in asked:
        _need(bool(_ID.fullmatch(call)), f"messages.{index}: tool_use id {call!r} is not valid")
    for block in content:
        if block.get("type") == "thinking":
            ok = genuine(str(block.get("thinking")), str(block.get("signature")))
            _need(ok, f"messages.{index}: Invalid `signature` in `thinking` block")


def _unanswered(calls: list[str]) -> str:
    return (
        "`tool_use` ids were found without `tool_result` blocks immediately after:"
        f" {', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block"
        " in the next message."
    )


def _tool_names(tools: Any) -> frozenset[str]:
    """Names of the offered tools; the provider's own tools have a type and may lack a schema."""
    _need(isinstance(tools, list), "tools: must be a list")
    names = [str(tool.get("name")) for tool in tools if isinstance(tool, dict)]
    _need(len(set(names)) == len(names), "tools: Tool names must be unique")
    for name in names:
        _need(bool(_TOOL_NAME.fullmatch(name)), f"tools: name {name!r} is not valid")
    return frozenset(names)


def _text(content: Any) -> str:
    """All text of some content, the text inside tool results included."""
    return "\n".join(_texts(content))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in content:
            if isinstance(block, dict):
                yield from _texts(block.get("text"))
                yield from _texts(block.get("content"))
