"""From the assembled stream to a reply that the run can build on, or the reason why it cannot.

What is accepted here is sent back to the provider in every later request, so a reply that it would
refuse then (two calls with one id, input that is no object, half a character) is not accepted.
"""

from __future__ import annotations

import json
from typing import NoReturn

from agentrun.run.exact import exact_json
from agentrun.run.records import Json
from agentrun.run.values import Reply, Requested
from agentrun.runner.model.faults import Fault, Kind, TryFailed
from agentrun.runner.model.stream import Assembly, Block, broken
from agentrun.runner.tools.surrogates import mend

_CUT_REASONS = frozenset({"max_tokens", "model_context_window_exceeded"})


def finish(assembly: Assembly, *, repair: bool) -> tuple[Reply, int]:
    """The reply, and how many lone surrogates were replaced in it.

    They are replaced only with ``repair`` (the last try: better than no reply), otherwise they make
    the stream a broken one. They are never replaced in thinking, which is signed.
    """
    message, reason = assembly.message, assembly.stop_reason
    if not assembly.complete or message is None or reason is None:
        broken(
            "it ended before message_stop" if not assembly.complete else "no start or stop reason"
        )
    ordered = [assembly.blocks[index] for index in sorted(assembly.blocks)]
    if reason in _CUT_REASONS and ordered and _is_cut(ordered[-1]):
        ordered.pop()
    content: list[Json] = []
    requested: list[Requested] = []
    sanitized = 0
    for block in ordered:
        value, count = _whole(block, repair=repair)
        sanitized += count
        content.append(value)
        if value.get("type") == "tool_use":
            requested.append(_request(value, block))
    _demand_different_ids(requested)
    return (
        Reply(
            content=content,
            requested=tuple(requested),
            stop_reason=reason,
            model=str(message.get("model") or ""),
            message_id=str(message.get("id") or ""),
            usage=assembly.usage,
        ),
        sanitized,
    )


def _is_cut(block: Block) -> bool:
    """A call that the output limit cut off. Running it with what is there would be a guess."""
    if block.start.get("type") != "tool_use":
        return False
    try:
        return not isinstance(json.loads("".join(block.input_text)), dict)
    except ValueError:
        return True


def _whole(block: Block, *, repair: bool) -> tuple[dict[str, Json], int]:
    value = block.value()
    text = "".join(block.input_text)
    if text.strip():
        value["input"] = _parse(text)
    mended, count = mend(value)
    if count and (not repair or "signature" in value):
        broken("half a character (lone surrogate) in the reply")
    return mended, count


def _parse(text: str) -> Json:
    try:
        value = json.loads(text, parse_constant=_no_number)
        exact_json(value)
    except RecursionError:
        broken("tool input is nested too deeply")
    except ValueError:
        broken("tool input is not JSON")
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _request(value: dict[str, Json], block: Block) -> Requested:
    call, name, arguments = value.get("id"), value.get("name"), value.get("input", {})
    if not (isinstance(call, str) and call and isinstance(name, str) and name):
        broken("a tool call without id or name")
    if not isinstance(arguments, dict):
        broken("tool input is not an object")
    text = "".join(block.input_text)
    same = not text.strip() or text == exact_json(arguments).decode()
    return Requested(call, name, arguments, None if same else text)


def _demand_different_ids(requested: list[Requested]) -> None:
    if len({call.id for call in requested}) < len(requested):
        raise TryFailed(Fault(Kind.REPLY, "two tool calls of one reply have the same id"))
