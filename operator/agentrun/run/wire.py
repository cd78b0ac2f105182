"""What a tool is called on the wire to the model.

The provider allows ``[A-Za-z0-9_-]{1,64}``; MCP allows nearly everything. A name that fits is
``server__tool`` as it stands; any other is made to fit and gets a hash of the real name, so that two
tools never share a wire name. The mapping is a function of the list alone, and it is in the record
(``toolset/offered``), so that every attempt sends the same names.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

WIRE_NAME_MAX = 64
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = (8, 16, 32, 63)


def wire_name(server: str, tool: str) -> str:
    """The name of one tool by itself: ``server__tool``, made to fit where it must be."""
    plain = f"{server}__{tool}"
    fit = _UNFIT.sub("_", plain)
    return fit if fit == plain and len(fit) <= WIRE_NAME_MAX else _hashed(fit, server, tool)


def wire_names(tools: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """``(server, tool)`` to wire name, all different, whatever the order of the list.

    Tools whose names would be equal (``a`` + ``b__c`` and ``a__b`` + ``c``) all get a hash: the name
    of none then depends on which came first. A server that picks names in order to collide with such
    a hash only makes the hashes longer.
    """
    names = {tool: wire_name(*tool) for tool in tools}
    for digits in _DIGITS:
        taken = Counter(names.values())
        clashing = [tool for tool, name in names.items() if taken[name] > 1]
        if not clashing:
            break
        names |= {tool: _hashed(names[tool], *tool, digits) for tool in clashing}
    return names


def _hashed(fit: str, server: str, tool: str, digits: int = _DIGITS[0]) -> str:
    digest = hashlib.sha256(f"{server}\n{tool}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{fit[: WIRE_NAME_MAX - digits - 1]}_{digest[:digits]}"
