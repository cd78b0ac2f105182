"""From the assembled stream to a reply that the run can build on, or the reason why it cannot.

What is accepted here is sent back to the provider in every later request, so a reply that it would
refuse then (two calls with one id, half a character) is not accepted. Input of a call that cannot be
used is no reason to refuse the reply: the model is told about it, and nobody else can mend it.
"""

from __future__ import annotations

from agentrun.run.conversation import tool_results
from agentrun.run.exact import exact_json, parse_json, unfit
from agentrun.run.records import Json
from agentrun.run.surrogates import mend
from agentrun.run.values import Reply, Requested
from agentrun.runner.model.faults import Fault, Kind, TryFailed
from agentrun.runner.model.stream import Assembly, Block, broken

_CUT_REASONS = frozenset({"max_tokens", "model_context_window_exceeded"})


def finish(assembly: Assembly, *, repair: bool) -> Reply:
    """The reply.

    With ``repair`` (the last try: better than no reply) lone surrogates are replaced, and the input
    of a call may be no JSON; otherwise either makes the stream a broken one. Nothing is ever replaced
    in thinking, which is signed.
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
        value, arguments, count = _whole(block, repair=repair)
        sanitized += count
        content.append(value)
        if value.get("type") == "tool_use":
            requested.append(_request(value, arguments, block))
    _demand_different_ids(requested)
    if tool_results(content):
        raise TryFailed(Fault(Kind.REPLY, "the reply holds the result of a tool call"))
    return Reply(
        content=content,
        requested=tuple(requested),
        stop_reason=reason,
        model=str(message.get("model") or ""),
        message_id=str(message.get("id") or ""),
        usage=assembly.usage,
        sanitized=sanitized,
    )


def _is_cut(block: Block) -> bool:
    """A call that the output limit cut off. Running it with what is there would be a guess."""
    if block.start.get("type") != "tool_use":
        return False
    try:
        return not isinstance(parse_json("".join(block.input_text)), dict)
    except ValueError:
        return True


def _whole(block: Block, *, repair: bool) -> tuple[dict[str, Json], Json, int]:
    """The block, its input as the call's arguments (None: unusable), and the surrogates replaced.

    The provider takes only objects back, so unusable input is an empty one in the conversation.
    """
    value = block.value()
    text = "".join(block.input_text)
    if text.strip():
        value["input"] = _parse(text, repair=repair)
    try:
        mended, count = mend(value)
    except RecursionError:
        broken("a block is nested too deeply")
    if count and (not repair or "signature" in value):
        broken("half a character (lone surrogate) in the reply")
    arguments = mended.get("input", {})
    if value.get("type") == "tool_use" and not isinstance(arguments, dict):
        mended = {**mended, "input": {}}
    return mended, arguments, count


def _parse(text: str, *, repair: bool) -> Json:
    """The input; None for what is too deep to be kept, and with ``repair`` for what is no JSON."""
    try:
        value = parse_json(text)
    except ValueError:
        return None if repair else broken("tool input is not JSON")
    return value if unfit([{"input": value}]) is None else None


def _request(value: dict[str, Json], arguments: Json, block: Block) -> Requested:
    call, name = value.get("id"), value.get("name")
    if not (isinstance(call, str) and call and isinstance(name, str) and name):
        broken("a tool call without id or name")
    text = "".join(block.input_text)
    same = not text.strip() or text == exact_json(arguments).decode()
    return Requested(call, name, arguments, None if same else text)


def _demand_different_ids(requested: list[Requested]) -> None:
    if len({call.id for call in requested}) < len(requested):
        raise TryFailed(Fault(Kind.REPLY, "two tool calls of one reply have the same id"))
