"""A reply in the provider's format: as one message, or as the events of a stream.

Everything here is a function of the script and the request's hash, so the same request gets the
same bytes from every server process.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentrun.devmodel.node import dump
from agentrun.devmodel.script import Reply, Usage

_SIGNED = "c2NyaXB0ZWQ6"  # base64 of "scripted:"
_PIECES = 4
_PIECE_LIMIT = 64 * 1024

ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def signature(thinking: str) -> str:
    """The signature of a scripted thinking block."""
    digest = hashlib.sha256(thinking.encode("utf-8", "surrogatepass")).digest()
    return _SIGNED + base64.b64encode(digest).decode()


def genuine(thinking: str, signed: str) -> bool:
    """False for a block signed here and altered since; others' signatures cannot be judged."""
    return not signed.startswith(_SIGNED) or signed == signature(thinking)


@dataclass(frozen=True)
class Answer:
    """A reply bound to the request it answers."""

    reply: Reply
    usage: Usage
    model: str
    digest: str

    def message(self) -> str:
        """The whole message as JSON text. Tool arguments keep the script's exact text."""
        blocks = [_whole(block) for block in self._blocks()]
        head = {**self._envelope(), "stop_reason": self._stop(), "usage": self._usage(final=True)}
        return dump(head)[:-1] + ',"content":[' + ",".join(blocks) + "]}"

    def events(self) -> Iterator[bytes]:
        """The same message as server-sent events."""
        start = {**self._envelope(), "content": [], "stop_reason": None}
        yield event("message_start", message={**start, "usage": self._usage(final=False)})
        yield event("ping")
        for index, block in enumerate(self._blocks()):
            opening, deltas = _streamed(block)
            yield event("content_block_start", index=index, content_block=opening)
            for delta in deltas:
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        delta = {"stop_reason": self._stop(), "stop_sequence": None}
        yield event("message_delta", delta=delta, usage=self._usage(final=True))
        yield event("message_stop")

    def _blocks(self) -> Iterator[dict[str, Any]]:
        """Blocks in order. The input of a tool_use is JSON text here, not a value."""
        reply = self.reply
        if reply.thinking is not None:
            signed = signature(reply.thinking)
            yield {"type": "thinking", "thinking": reply.thinking, "signature": signed}
        for block in reply.blocks:
            is_call = block["type"] == "tool_use"
            yield {**block, "input": dump(block.get("input", {}))} if is_call else dict(block)
        if reply.text is not None:
            yield {"type": "text", "text": reply.text}
        for position, tool in enumerate(reply.tools):
            call = tool.id or f"toolu_{self.digest[:20]}{position:02d}"
            yield {"type": "tool_use", "id": call, "name": tool.name, "input": tool.raw}

    def _envelope(self) -> dict[str, Any]:
        return {
            "id": f"msg_{self.digest[:24]}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "stop_sequence": None,
        }

    def _stop(self) -> str:
        calls = any(block["type"] == "tool_use" for block in self._blocks())
        return self.reply.stop or ("tool_use" if calls else "end_turn")

    def _usage(self, *, final: bool) -> dict[str, Any]:
        usage = self.usage
        return {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": usage.cache_write,
                "ephemeral_1h_input_tokens": 0,
            },
            "output_tokens": usage.output if final else min(usage.output, 1),
        }


def event(name: str, **fields: Any) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: {dump({'type': name, **fields})}\n\n".encode()


def error_body(status: int, message: str, request_id: str) -> dict[str, Any]:
    """An error in the provider's format; the type follows from the status."""
    kind = ERROR_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": request_id}


def _whole(block: dict[str, Any]) -> str:
    if block["type"] != "tool_use":
        return dump(block)
    rest = {key: value for key, value in block.items() if key != "input"}
    return f'{dump(rest)[:-1]},"input":{block["input"]}}}'


def _streamed(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block begins and the deltas that complete it. Unknown types arrive whole."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": part} for part in _pieces(block["text"])]
            return {**block, "text": ""}, deltas
        case "thinking":
            parts = _pieces(block["thinking"])
            deltas = [{"type": "thinking_delta", "thinking": part} for part in parts]
            signed = {"type": "signature_delta", "signature": block.get("signature", "")}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
        case "tool_use":
            parts = ["", *_pieces(block["input"])]
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return {**block, "input": {}}, deltas
    return block, []


def _pieces(text: str) -> list[str]:
    size = max(1, min(-(-len(text) // _PIECES), _PIECE_LIMIT))
    return [text[at : at + size] for at in range(0, len(text), size)]
