"""JSON without loss: every code unit and every digit comes back as it went in.

The standard library's encoder with ASCII escapes is the only one of those tried that keeps lone
surrogates and long integers; the faster ones refuse or alter them (reference: libraries, G).
"""

from __future__ import annotations

import hashlib
import json

from agentrun.run.records import Json


def exact_json(value: Json) -> bytes:
    """Compact, ASCII, in the value's own key order. ValueError for NaN and infinities."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode(
        "ascii"
    )


def canonical_json(value: Json) -> bytes:
    """One spelling per value: keys sorted. What hashes of reviewed content are taken over."""
    return json.dumps(
        value, ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True
    ).encode("ascii")


def parse_json(text: bytes | str) -> Json:
    """The value; the last of duplicate keys wins. ValueError when it is not JSON."""
    return json.loads(text)


def sha256_hex(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()
