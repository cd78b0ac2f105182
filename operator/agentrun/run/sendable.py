"""What of a recorded conversation is sent: all of it but what the provider would refuse.

The record keeps replies as they were streamed, and results as they were given. Models do stream
blocks that are not accepted back (an empty text beside a call), and tools do say nothing: sent as
they are, one of them would fail this request and every later one. Thinking is signed, so it is never
touched.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence

from agentrun.run.messages import blocks_of
from agentrun.run.records import Json

_UNFIT = re.compile("[^A-Za-z0-9_-]")


def sendable(messages: Sequence[Json]) -> list[Json]:
    """The messages of a request. One that has nothing left to say is left out, unless it is the
    user's: then there is nothing to answer, and the provider says so best."""
    sent: list[Json] = []
    for message in messages:
        blocks = blocks_of(message["content"])
        kept = [fit for block in blocks if (fit := _block(block)) is not None]
        if kept and (len(kept) < len(blocks) or not all(map(operator.is_, kept, blocks))):
            sent.append({**message, "content": kept})
        elif kept or message["role"] == "user":
            sent.append(message)
    return sent


def _block(block: Json) -> Json | None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        text = block.get("text")
        return block if isinstance(text, str) and text and not text.isspace() else None
    if kind == "tool_use":
        return _changed(block, id=_id(block.get("id")), name=_name(block.get("name")))
    if kind == "tool_result":
        fit = _changed(block, tool_use_id=_id(block.get("tool_use_id")))
        inside = blocks_of(block.get("content"))
        kept = [inner for inner in inside if _block(inner) is not None]
        if not kept:
            return {key: value for key, value in fit.items() if key != "content"}
        return fit if len(kept) == len(inside) else {**fit, "content": kept}
    return block


def _changed(block: dict[str, Json], **values: Json) -> dict[str, Json]:
    """The block itself if nothing differs."""
    same = all(block.get(key) == value for key, value in values.items())
    return block if same else {**block, **values}


def _name(name: Json) -> Json:
    """A tool's name as providers allow it. One on offer is; a model may make up any other."""
    return _UNFIT.sub("_", _characters(name)) if isinstance(name, str) else name


def _id(call: Json) -> Json:
    """An id is the provider's own and comes back to it as it is, if it is text at all."""
    return _characters(call).replace("\ufffd", "_") if isinstance(call, str) else call


def _characters(text: str) -> str:
    """Halves of a pair that stand together are one character, as they are once they were stored."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
