"""Lone surrogates, replaced and counted: in values, and in JSON text before anything parses it.

JSON can spell a code unit that is no character (``"\\ud800"``). Half of the libraries on the way
refuse it, and a model provider refuses a whole conversation that holds one, for ever. So it becomes
U+FFFD on the way in and out, in both directions. Pairs that were only torn apart are put together, not counted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrun.run.records import Json

_ANY = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SUSPECT = re.compile(
    rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])"  # a first half without a second
    rb"|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"  # a second half without a first
    rb"|\\\\u[dD][89abAB]",  # the words for a first half, which may stand before a second
    re.DOTALL,
)
"""A quick look: most texts are full of escapes and have none of these."""
_ESCAPE = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"  # a pair: kept
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"  # half of one: replaced
    rb"|\\.",  # any other escape: kept, and not looked into
    re.DOTALL,
)


def mend_text(text: str) -> tuple[str, int]:
    """The text without lone surrogates, and how many there were."""
    if text.isascii() or not _ANY.search(text):
        return text, 0
    whole = _PAIR.sub(
        lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text
    )
    return _ANY.subn("\ufffd", whole)


def mend(value: Json) -> tuple[Json, int]:
    """The same for every string and key of a JSON value; the value itself if nothing is wrong."""
    match value:
        case str():
            return mend_text(value)
        case list():
            items = [mend(item) for item in value]
            count = sum(found for _, found in items)
            changed = any(new is not old for (new, _), old in zip(items, value, strict=True))
            return ([item for item, _ in items] if changed else value), count
        case dict():
            pairs = [(mend_text(key), mend(item)) for key, item in value.items()]
            count = sum(in_key + in_item for (_, in_key), (_, in_item) in pairs)
            changed = any(
                key is not old or item is not value[old]
                for ((key, _), (item, _)), old in zip(pairs, value, strict=True)
            )
            return ({key: item for (key, _), (item, _) in pairs} if changed else value), count
    return value, 0


def mend_json(text: bytes) -> tuple[bytes, int]:
    """JSON text (or a line of it) without escapes of lone surrogates, and how many there were."""
    if _SUSPECT.search(text) is None:
        return text, 0
    count = 0

    def replace(escape: re.Match[bytes]) -> bytes:
        nonlocal count
        if escape[2] is None:
            return escape[0]
        count += 1
        return b"\\ufffd"

    return _ESCAPE.sub(replace, text), count
