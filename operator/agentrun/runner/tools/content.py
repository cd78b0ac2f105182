"""A tool's result as the content of a ``tool_result`` block.

What the Messages API would refuse must not get in: it would refuse every later request as well.
"""

from __future__ import annotations

import base64
import binascii
import json

from agentrun.run.records import Json
from agentrun.runner.tools.exchange import RpcError

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
IMAGE_MAX = 5 << 20
"""Bytes of base64; the provider refuses more."""

_SILENT_FAILURE = "The tool failed without saying why."
_WANTS_INPUT = "The tool asks for input in the middle of the call, which is not supported here."


def result_content(result: dict[str, Json]) -> tuple[list[Json], bool]:
    """Content blocks, and whether the result is an error. No content is an empty list."""
    if result.get("resultType") == "input_required":
        return [_text(_WANTS_INPUT)], True
    failed = result.get("isError") is True
    raw = result.get("content")
    items = raw if isinstance(raw, list) else [] if raw is None else [raw]
    blocks = [block for item in items if (block := _block(item)) is not None]
    structured = result.get("structuredContent")
    if structured is not None and not any(block["type"] == "text" for block in blocks):
        blocks.append(_text(_dump(structured)))
    if failed and not blocks:
        blocks.append(_text(_SILENT_FAILURE))
    return list(blocks), failed


def error_content(error: RpcError) -> list[Json]:
    """What the model is told about a JSON-RPC error."""
    data = "" if error.data in (None, "") else f" {_dump(error.data)}"
    return [_text(f"The tool server answered with error {error.code}: {error.message}{data}")]


def _block(item: Json) -> dict[str, Json] | None:
    """One block; None for an empty text, which the provider refuses."""
    if not isinstance(item, dict):
        return _text(_dump(item))
    match item:
        case {"type": "text", "text": str(text)}:
            return _text(text) if text else None
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(media)}:
            return _binary(data, media, f"{item['type']} {media}")
        case {"type": "resource", "resource": {"text": str(text)}}:
            return _text(text) if text else None
        case {"type": "resource", "resource": {"blob": str(data)} as resource}:
            media = str(resource.get("mimeType") or "application/octet-stream")
            return _binary(data, media, f"resource {resource.get('uri', '')} {media}")
        case {"type": "resource_link", "uri": str(uri)}:
            parts = (item.get("title") or item.get("name"), uri, item.get("description"))
            return _text("resource: " + " - ".join(str(part) for part in parts if part))
    return _text(_dump(item))


def _binary(data: str, media: str, what: str) -> dict[str, Json]:
    try:
        size = len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return _text(f"[{what}: not valid base64]")
    if media in IMAGE_TYPES and 0 < len(data) <= IMAGE_MAX:
        source = {"type": "base64", "media_type": media, "data": data}
        return {"type": "image", "source": source}
    return _text(f"[{what}, {size} bytes, cannot be shown]")


def _text(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}


def _dump(value: Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return "[nested too deeply to be shown]"
