"""Values that leave a body: long strings and the data of images.

In the body a blob is ``{"$blob": sha256}``; a user's own object that has one of our keys is wrapped
in ``{"$esc": …}``, so that nothing a model or a tool says can name a blob.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentrun.errors import CheckpointCorrupt
from agentrun.run.exact import sha256_hex
from agentrun.run.records import Json

LONG = 256 * 1024
"""Characters above which a string is a blob."""
IMAGE = 1024
"""Characters above which base64 data of a block is a blob."""

_RESERVED = ("$blob", "$esc")


def may_extract(text: bytes) -> bool:
    """Whether :func:`extract` may change the value of this exact JSON: a look at its bytes is much
    quicker than a walk through it."""
    return len(text) > LONG or (len(text) > IMAGE and b'"base64"' in text) or may_name(text)


def may_name(text: bytes) -> bool:
    """Whether a value in this exact JSON may be a blob's name, or look like one."""
    return b"$" in text and any(b'"%s"' % key.encode() in text for key in _RESERVED)


def extract(value: Json) -> tuple[Json, dict[str, bytes]]:
    """The value with its large parts named, and those parts by name."""
    contents: dict[str, bytes] = {}
    return _lift(value, contents, None), contents


def lower(value: Json, contents: Mapping[str, bytes]) -> Json:
    """Inverse of :func:`extract`; CheckpointCorrupt when a blob is missing."""
    if isinstance(value, list):
        return [lower(item, contents) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        if "$blob" in value:
            return _text(value["$blob"], contents)
        if "$esc" in value and isinstance(value["$esc"], dict):
            return {key: lower(item, contents) for key, item in value["$esc"].items()}
    return {key: lower(item, contents) for key, item in value.items()}


def names(value: Json) -> tuple[str, ...]:
    """All blobs that a lifted value names, each once, in order."""
    found: dict[str, None] = {}
    _names(value, found)
    return tuple(found)


def _lift(value: Json, contents: dict[str, bytes], parent: Json) -> Json:
    if isinstance(value, str):
        limit = IMAGE if _is_image_data(parent) else LONG
        return value if len(value) <= limit else _put(value, contents)
    if isinstance(value, dict):
        lifted = {
            key: _lift(item, contents, value if key == "data" else None)
            for key, item in value.items()
        }
        return {"$esc": lifted} if any(key in lifted for key in _RESERVED) else lifted
    if isinstance(value, list | tuple):
        return [_lift(item, contents, None) for item in value]
    return value


def _is_image_data(parent: Json) -> bool:
    return isinstance(parent, dict) and parent.get("type") == "base64"


def _put(text: str, contents: dict[str, bytes]) -> Json:
    data = text.encode("utf-8", "surrogatepass")
    name = sha256_hex(data)
    contents[name] = data
    return {"$blob": name}


def _text(name: Json, contents: Mapping[str, bytes]) -> str:
    data = contents.get(name) if isinstance(name, str) else None
    if data is None:
        raise CheckpointCorrupt("a blob that it names is missing", attempted="decode a body")
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise CheckpointCorrupt(
            "a blob that it names is no text", attempted="decode a body"
        ) from None


def _names(value: Json, found: dict[str, None]) -> None:
    if isinstance(value, list):
        for item in value:
            _names(item, found)
    elif isinstance(value, dict):
        if len(value) == 1 and "$blob" in value:
            found[str(value["$blob"])] = None
            return
        inner = value["$esc"] if len(value) == 1 and "$esc" in value else value
        if isinstance(inner, dict):
            for item in inner.values():
                _names(item, found)
