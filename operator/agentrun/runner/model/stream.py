"""A streamed reply put together from its events, exactly as they came.

The SDK's own event types are not used: they rename, reorder and drop what they do not know. Here a
block is the JSON object of its ``content_block_start`` with its deltas applied, whatever its type.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NoReturn

from agentrun.api.bounds import COUNT_MAX
from agentrun.run.records import Json, Usage
from agentrun.runner.model.faults import Fault, Kind, TryFailed, judge_event

_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


@dataclass(slots=True)
class Block:
    """A content block under way: its start, its growing texts by field, its input as JSON text."""

    start: dict[str, Json]
    texts: dict[str, list[str]] = field(default_factory=dict)
    input_text: list[str] = field(default_factory=list)

    def add(self, delta: dict[str, Json]) -> None:
        """Apply a delta: texts and lists grow, anything else is set.

        All known types follow this rule, three spellings apart, and so may one that did not exist
        when this was written.
        """
        for name, value in delta.items():
            if name == "type":
                continue
            if name == "partial_json" and isinstance(value, str):
                self.input_text.append(value)
            elif name == "citation":
                self.start["citations"] = [*(self.start.get("citations") or ()), value]
            elif isinstance(value, str) and name != "signature":
                self.texts.setdefault(name, [str(self.start.get(name) or "")]).append(value)
            elif isinstance(value, list):
                self.start[name] = [*(self.start.get(name) or ()), *value]
            else:
                self.start[name] = value

    def value(self) -> dict[str, Json]:
        """The block so far, without its streamed input; keys in the order in which they came."""
        return self.start | {name: "".join(parts) for name, parts in self.texts.items()}


@dataclass(slots=True)
class Assembly:
    """One streamed reply. ``complete`` only after ``message_stop``: a stream that ends early ends
    without any error."""

    secret: str | None = None
    message: dict[str, Json] | None = None
    blocks: dict[int, Block] = field(default_factory=dict)
    stop_reason: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    complete: bool = False

    def take(self, name: str | None, data: str) -> bool:
        """Take one event; False for one that says nothing about the reply: a ping, or a late one.

        Raises ValueError for what is not JSON, TryFailed for an error event or a wrong order.
        """
        if not data or self.complete:
            return False
        event = json.loads(data)
        if not isinstance(event, dict):
            broken(f"event {name or 'message'} is not an object")
        try:
            return self._apply(event, event.get("type") or name)
        except TypeError:
            broken(f"event {name or 'message'} holds a value of a wrong type")

    def _apply(self, event: dict[str, Json], kind: Json) -> bool:
        match kind:
            case "ping":
                return False
            case "error":
                self._fail(event)
            case "message_start":
                self.message = _object(event, "message")
                self._count(self.message.get("usage"))
            case "content_block_start":
                self._open(event)
            case "content_block_delta":
                self._block(event).add(_object(event, "delta"))
            case "message_delta":
                reason = _object(event, "delta").get("stop_reason")
                self.stop_reason = reason if isinstance(reason, str) else self.stop_reason
                self._count(event.get("usage"))
            case "message_stop":
                self.complete = True
        return True

    @property
    def usage(self) -> Usage:
        """What the provider has counted so far; absent and null counts are nothing new."""
        return Usage(**self.counts)

    def _open(self, event: dict[str, Json]) -> None:
        index = event.get("index")
        if not isinstance(index, int) or index in self.blocks:
            broken("a content block begins twice or without an index")
        self.blocks[index] = Block(dict(_object(event, "content_block")))

    def _block(self, event: dict[str, Json]) -> Block:
        block = self.blocks.get(event.get("index", -1))
        return block if block is not None else broken("a delta belongs to no content block")

    def _count(self, usage: Json) -> None:
        for name, ours in _COUNTS.items():
            value = usage.get(name) if isinstance(usage, dict) else None
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                if value > COUNT_MAX:
                    broken("it counts more tokens than there can be")
                self.counts[ours] = value

    def _fail(self, event: dict[str, Json]) -> NoReturn:
        error = event.get("error")
        error = error if isinstance(error, dict) else {}
        details = error.get("details")
        code = details.get("error_code") if isinstance(details, dict) else None
        fault = judge_event(
            str(error.get("type") or ""),
            str(code or ""),
            str(error.get("message") or ""),
            self.secret,
        )
        raise TryFailed(fault, self.usage)


def broken(why: str) -> NoReturn:
    """The stream is not one; another one may be."""
    raise TryFailed(Fault(Kind.AGAIN, f"broken stream: {why}"))


def _object(event: dict[str, Json], name: str) -> dict[str, Json]:
    value = event.get(name)
    return value if isinstance(value, dict) else broken(f"{event.get('type')} without {name}")
