"""Text that may leave this process: a lone surrogate in a result would end the SDK's writer."""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> tuple[str, int]:
    """The text with lone surrogates replaced, and how many there were."""
    return _LONE.subn("\ufffd", text)
