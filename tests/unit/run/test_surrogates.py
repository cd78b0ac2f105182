"""Lone surrogates are replaced and counted; everything else comes through untouched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrun.run.surrogates import mend, mend_json, mend_text

TEXT = st.text(st.characters(categories=("L", "N", "P", "Cs", "Cc", "So")))
VALUE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)


def lone(text: str) -> int:
    """Surrogates that are no pair, counted the slow way."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return sum("\ud800" <= char <= "\udfff" for char in whole)


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        ("plain", "plain", 0),
        ("é\U0001f600\x00", "é\U0001f600\x00", 0),
        ("a\ud800b", "a\ufffdb", 1),
        ("\ud83d\ude00", "\U0001f600", 0),
        ("\ude00\ud83d", "\ufffd\ufffd", 2),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600", 1),
    ],
)
def test_lone_halves_are_replaced_and_torn_pairs_joined(
    text: str, expected: str, count: int
) -> None:
    assert mend_text(text) == (expected, count)


@given(TEXT)
def test_every_lone_one_is_found(text: str) -> None:
    mended, count = mend_text(text)
    assert count == lone(text)
    mended.encode()


def test_a_sound_value_is_the_same_object() -> None:
    value = {"a": ["é", {"b": None}], "n": 10**30}
    assert mend(value) == (value, 0)
    assert mend(value)[0] is value


def test_values_and_keys() -> None:
    value = {"\ud800": ["x", "\udfff"], "ok": {"y": "z\ud800"}}
    assert mend(value) == ({"\ufffd": ["x", "\ufffd"], "ok": {"y": "z\ufffd"}}, 3)


@given(VALUE)
def test_mended_values_can_be_encoded(value: Any) -> None:
    json.dumps(mend(value)[0], ensure_ascii=False).encode()


@given(VALUE, st.booleans())
def test_json_text_is_mended_as_its_value_would_be(value: Any, ascii_only: bool) -> None:
    """The same result whether mended before or after parsing (keys that become equal aside)."""
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if not ascii_only and lone(json.dumps(value, ensure_ascii=False)):
        return
    mended, count = mend_json(text)
    assert json.loads(mended) == mend(json.loads(text))[0]
    assert count == mend(json.loads(text))[1] if _keys_differ(value) else True


def _keys_differ(value: Any) -> bool:
    if isinstance(value, dict):
        keys = [mend_text(key)[0] for key in value]
        return len(set(keys)) == len(keys) and all(map(_keys_differ, value.values()))
    return all(map(_keys_differ, value)) if isinstance(value, list) else True


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        (rb'"\ud800"', rb'"\ufffd"', 1),
        (rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"', 0),
        (rb'"\\ud800"', rb'"\\ud800"', 0),
        (rb'"\\ud800\udc00"', rb'"\\ud800\ufffd"', 1),
        (rb'"\\\ud800"', rb'"\\\ufffd"', 1),
        (rb'"\ud83d\\ude00"', rb'"\ufffd\\ude00"', 1),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"', 1),
        (b"not json \\", b"not json \\", 0),
    ],
)
def test_escaped_halves_in_json_text_are_replaced(text: bytes, expected: bytes, count: int) -> None:
    assert mend_json(text) == (expected, count)
