"""Records to the bytes of a commit, state to the bytes of a snapshot, and back.

A body is exact JSON, compressed above 512 bytes. Long strings and image data leave it as blobs,
named by the sha256 of their content, so that a commit stays small and repeats are stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import zstandard
from pydantic import TypeAdapter, ValidationError

from agentrun.errors import CheckpointCorrupt, CheckpointNewer
from agentrun.run import blobs
from agentrun.run.exact import exact_json, parse_json
from agentrun.run.records import SCHEMA_VERSION, AnyRecord, Record
from agentrun.run.state import State
from agentrun.run.state_json import state_from_json, state_to_json

RAW, ZSTD = 0, 1
COMPRESS_ABOVE = 512
DECODED_MAX = 1 << 30
"""Bound on one decompressed body: a forged length must not take the memory."""

_records: TypeAdapter[tuple[Record, ...]] = TypeAdapter(tuple[AnyRecord, ...])


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes for one row, and the blobs that must be written before it."""

    codec: int
    body: bytes
    blobs: Mapping[str, bytes] = field(default_factory=dict)


def encode(records: Sequence[Record]) -> Encoded:
    """One commit's body. Equal records give equal bytes."""
    return _pack(
        {
            "v": SCHEMA_VERSION,
            "r": [_dump(record) for record in records],
        }
    )


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
    return _pack({"v": SCHEMA_VERSION, "s": state_to_json(state)})


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
    text = _inflate(codec, body, "body")
    if blobs.MARK not in text:
        return ()
    return blobs.names(_parse(text, "body"))


def _dump(record: Record) -> dict[str, object]:
    """Fields at their defaults are left out; the type never is."""
    kind: object = getattr(record, "type")  # noqa: B009 - every member of the union has it
    return {"type": kind, **record.model_dump(by_alias=True, exclude_defaults=True)}


def _pack(value: dict[str, object]) -> Encoded:
    lifted, contents = blobs.lift(value)
    text = exact_json(lifted)
    if len(text) <= COMPRESS_ABOVE:
        return Encoded(RAW, text, contents)
    return Encoded(ZSTD, zstandard.ZstdCompressor(level=3).compress(text), contents)


def _unpack(codec: int, body: bytes, contents: Mapping[str, bytes], what: str) -> dict[str, object]:
    text = _inflate(codec, body, what)
    value = _parse(text, what)
    if not isinstance(value, dict) or not isinstance(version := value.get("v"), int):
        raise CheckpointCorrupt("no version", attempted=f"decode a {what}")
    if version > SCHEMA_VERSION:
        raise CheckpointNewer(
            f"written with record version {version}, this release reads {SCHEMA_VERSION}",
            attempted=f"decode a {what}",
            advice="Run it with an image of the newer release.",
        )
    if blobs.MARK in text or blobs.ESCAPE in text:
        return {key: blobs.lower(part, contents) for key, part in value.items()}
    return value


def _inflate(codec: int, body: bytes, what: str) -> bytes:
    if codec == RAW:
        return bytes(body)
    if codec != ZSTD:
        raise CheckpointNewer(f"unknown codec {codec}", attempted=f"decode a {what}")
    try:
        return zstandard.ZstdDecompressor().decompress(bytes(body), max_output_size=DECODED_MAX)
    except zstandard.ZstdError:
        raise CheckpointCorrupt("cannot be decompressed", attempted=f"decode a {what}") from None


def _parse(text: bytes, what: str) -> object:
    try:
        value: object = parse_json(text)
    except (ValueError, RecursionError):
        raise CheckpointCorrupt("is not JSON", attempted=f"decode a {what}") from None
    return value
