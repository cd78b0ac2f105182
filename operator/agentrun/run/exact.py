"""JSON without loss: every code unit and every digit comes back as it went in.

The standard library's encoder with ASCII escapes is the only one of those tried that keeps lone
surrogates and long integers; the faster ones refuse or alter them (reference: libraries, G).
"""

from __future__ import annotations

import hashlib
import json
from math import isfinite
from typing import NoReturn

from agentrun.run.records import Json

DEPTH_MAX = 128
"""Nesting of a value that is kept. Far above what tools and models write, and far below where the
interpreter's stack ends, wherever on the stack a value is encoded or decoded."""


def exact_json(value: Json) -> bytes:
    """Compact, ASCII, in the value's own key order. ValueError for what JSON cannot say."""
    return _ENCODE(value).encode("ascii")


def canonical_json(value: Json) -> bytes:
    """One spelling per value: keys sorted. What hashes of reviewed content are taken over."""
    return _CANONICAL(value).encode("ascii")


def parse_json(text: bytes | str) -> Json:
    """The value; the last of duplicate keys wins. ValueError for anything that
    :func:`exact_json` could not say: not JSON, NaN and its like, nested without end."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogatepass")
    try:
        value, end = _DECODER.raw_decode(text)
        return value if end == len(text) else _DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def unfit(value: Json) -> str | None:
    """Why a value cannot be kept and given back exactly, or None if it can."""
    try:
        text = _ENCODE(value)
    except RecursionError:
        return "it is nested too deeply"
    except (ValueError, TypeError):
        return "it holds something that JSON cannot say"
    brackets = text.count("[") + text.count("{")
    return "it is nested too deeply" if brackets > DEPTH_MAX and _is_deep(value) else None


def sha256_hex(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def _is_deep(value: Json) -> bool:
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list | tuple)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refuse(text)


_ENCODE = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode
_CANONICAL = json.JSONEncoder(
    ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True
).encode
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
