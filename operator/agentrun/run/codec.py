"""Records to the bytes of a commit, state to the bytes of a snapshot, and back.

A body is exact JSON, compressed above 512 bytes. Long strings and image data leave it as blobs,
named by the sha256 of their content, so that a commit stays small and repeats are stored once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import zstandard
from pydantic import TypeAdapter, ValidationError

from agentrun.errors import CheckpointCorrupt, CheckpointNewer
from agentrun.run import blobs
from agentrun.run.as_json import record_to_json, state_from_json, state_to_json
from agentrun.run.exact import exact_json, parse_json
from agentrun.run.records import SCHEMA_VERSION, AnyRecord, Json, Record
from agentrun.run.state import State

T = TypeVar("T")
RAW, ZSTD = 0, 1
COMPRESS_ABOVE = 512
BODY_MAX = 1 << 24
"""Bytes of one commit's body that the store takes (its domain ``commit_body``)."""
DECODED_MAX = 1 << 30
"""Bound on one decompressed body: a forged length must not take the memory."""
MESSAGES_DEEP = 5
"""Levels of a snapshot above its messages: v/s, fields, conversations, paths, lists."""

_records: TypeAdapter[tuple[Record, ...]] = TypeAdapter(tuple[AnyRecord, ...])
_compressors: deque[zstandard.ZstdCompressor] = deque(maxlen=4)
_decompressors: deque[zstandard.ZstdDecompressor] = deque(maxlen=4)
"""Idle ones: making one costs more than a small body does, and two threads must not share one.
Taking from a deque and giving back to it is safe in any thread."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes for one row, and the blobs that must be written before it."""

    codec: int
    body: bytes
    blobs: Mapping[str, bytes] = field(default_factory=dict)


def encode(records: Sequence[Record]) -> Encoded:
    """One commit's body. Equal records give equal bytes."""
    value = {"v": SCHEMA_VERSION, "r": [record_to_json(record) for record in records]}
    text = exact_json(value)
    if not blobs.may_extract(text):
        return _packed(text, {})
    rest, contents = blobs.extract(value)
    return _packed(exact_json(rest), contents)


def oversized(record: Record) -> str | None:
    """Why a record is more than one commit can hold, though its long values leave it; else None."""
    whole = len(exact_json(record_to_json(record)))
    if whole <= BODY_MAX or len(encode((record,)).body) <= BODY_MAX:
        return None
    return f"it has {whole >> 20} MiB in small pieces"


def decode(codec: int, body: bytes, contents: Mapping[str, bytes]) -> tuple[Record, ...]:
    """Inverse of :func:`encode`. CheckpointCorrupt, or CheckpointNewer for a later version."""
    value = _unpack(codec, body, contents, "commit")
    try:
        return _records.validate_python(value["r"])
    except (ValidationError, KeyError, TypeError) as error:
        raise CheckpointCorrupt(
            f"records do not validate ({type(error).__name__})",
            attempted="decode a commit",
            advice="Restore the database from a backup; nothing was executed.",
        ) from None


def encode_state(state: State) -> Encoded:
    """A snapshot's body."""
    rest, contents = blobs.extract({"v": SCHEMA_VERSION, "s": state_to_json(state)})
    return _packed(b"".join(_pieces(rest, MESSAGES_DEEP)), contents)


def decode_state(codec: int, body: bytes, contents: Mapping[str, bytes]) -> State:
    """Inverse of :func:`encode_state`."""
    value = _unpack(codec, body, contents, "snapshot")
    try:
        return state_from_json(value["s"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointCorrupt(
            f"state does not validate ({type(error).__name__})", attempted="decode a snapshot"
        ) from None


def blob_refs(codec: int, body: bytes) -> tuple[str, ...]:
    """The blobs a body names, in order of first use, without building its records."""
    text = inflate(codec, body)
    return blobs.names(_parse(text, "body")) if blobs.may_name(text) else ()


def file_refs(codec: int, body: bytes) -> tuple[str, ...]:
    """The blobs that hold workspace files as this commit left them. They are no part of the body:
    state is folded without them."""
    text = inflate(codec, body)
    if b'"workspace/changed"' not in text:
        return ()
    try:
        found = [
            change["sha256"]
            for record in _parse(text, "body")["r"]
            if record["type"] == "workspace/changed"
            for change in record["changes"]
        ]
    except (KeyError, TypeError):
        raise CheckpointCorrupt("records do not validate", attempted="read a commit") from None
    return tuple(dict.fromkeys(name for name in found if isinstance(name, str)))


def _pieces(value: Json, deep: int) -> Iterator[bytes]:
    """The bytes of :func:`exact_json`, in pieces: the encoder keeps every other thread waiting for
    as long as one call of it takes, and a whole snapshot takes long (H54)."""
    if deep and isinstance(value, dict) and value:
        for index, (key, item) in enumerate(value.items()):
            yield (b"," if index else b"{") + exact_json(key) + b":"
            yield from _pieces(item, deep - 1)
        yield b"}"
    elif deep and isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield b"," if index else b"["
            yield from _pieces(item, deep - 1)
        yield b"]"
    else:
        yield exact_json(value)


def _packed(text: bytes, contents: Mapping[str, bytes]) -> Encoded:
    if len(text) <= COMPRESS_ABOVE:
        return Encoded(RAW, text, contents)
    compressor = _borrowed(_compressors) or zstandard.ZstdCompressor(level=3)
    body = compressor.compress(text)
    _compressors.append(compressor)
    return Encoded(ZSTD, body, contents)


def _unpack(codec: int, body: bytes, contents: Mapping[str, bytes], what: str) -> dict[str, Json]:
    text = inflate(codec, body, what)
    value = _parse(text, what)
    if not isinstance(value, dict):
        raise CheckpointCorrupt("is no object", attempted=f"decode a {what}")
    version = value.get("v")
    if not isinstance(version, int) or version < 1:
        raise CheckpointCorrupt("no version", attempted=f"decode a {what}")
    if version > SCHEMA_VERSION:
        raise CheckpointNewer(
            f"written with record version {version}, this release reads {SCHEMA_VERSION}",
            attempted=f"decode a {what}",
            advice="Run it with an image of the newer release.",
        )
    if not blobs.may_name(text):
        return value
    try:
        return {key: blobs.lower(part, contents) for key, part in value.items()}
    except RecursionError:
        raise CheckpointCorrupt("is nested too deeply", attempted=f"decode a {what}") from None


def inflate(codec: int, body: bytes, what: str = "body") -> bytes:
    """The exact JSON of a body: what a body of codec ``RAW`` is."""
    if codec == RAW:
        return bytes(body)
    if codec != ZSTD:
        raise CheckpointNewer(f"unknown codec {codec}", attempted=f"decode a {what}")
    try:
        if zstandard.frame_content_size(body) > DECODED_MAX:
            raise CheckpointCorrupt("is too large", attempted=f"decode a {what}")
        decompressor = _borrowed(_decompressors) or zstandard.ZstdDecompressor()
        text = decompressor.decompress(body, DECODED_MAX, allow_extra_data=False)
    except zstandard.ZstdError:
        raise CheckpointCorrupt("cannot be decompressed", attempted=f"decode a {what}") from None
    _decompressors.append(decompressor)
    return text


def _borrowed(idle: deque[T]) -> T | None:
    try:
        return idle.pop()
    except IndexError:
        return None


def _parse(text: bytes, what: str) -> Json:
    try:
        return parse_json(text)
    except ValueError:
        raise CheckpointCorrupt("is not JSON", attempted=f"decode a {what}") from None
