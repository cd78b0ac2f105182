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

from agentrun.api.globs import matches

__all__ = ["WIRE_NAME_MAX", "matches", "wire_name", "wire_names"]

WIRE_NAME_MAX = 64
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def wire_name(server: str, tool: str) -> str:
    """The name of one tool by itself: ``server__tool``, made to fit where it must be."""
    plain = f"{server}__{tool}"
    fit = _UNFIT.sub("_", plain)
    return fit if fit == plain and len(fit) <= WIRE_NAME_MAX else _hashed(fit, server, tool)


def wire_names(tools: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """``(server, tool)`` to wire name, all different, whatever the order of the list.

    Two tools whose plain names are equal (``a`` + ``b__c`` and ``a__b`` + ``c``) both get a hash: the
    name of neither then depends on which came first.
    """
    wanted = {tool: wire_name(*tool) for tool in tools}
    taken = Counter(wanted.values())
    return {
        tool: name if taken[name] == 1 else _hashed(name, *tool) for tool, name in wanted.items()
    }


def _hashed(fit: str, server: str, tool: str) -> str:
    digest = hashlib.sha256(f"{server}\n{tool}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{fit[: WIRE_NAME_MAX - _HASH - 1]}_{digest[:_HASH]}"
