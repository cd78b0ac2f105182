"""What a stored object must at least be, so that everything that handles objects may rely on it.

The file can be edited or damaged. One object that is none must be named, and must not hide the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agentrun.errors import ClusterUnavailable

Body = dict[str, Any]

_ALWAYS: Final = (
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
)
_BY_KIND: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "Pod": (("status", "phase"), ("metadata", "labels", "agentrun.dev/run")),
    "Approval": (("spec", "runRef", "name"),),
}
"""Paths at which there must be text."""

ADVICE: Final = "Restore the file, or name another state folder with --state"


def sound(text: str, kind: str) -> Body | None:
    """The object, or None if the text is none of this kind."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    paths = (*_ALWAYS, *_BY_KIND.get(kind, ()))
    if all(isinstance(_at(body, path), str) for path in paths) and body["kind"] == kind:
        return dict(body)
    return None


def demand(text: str, kind: str, where: str) -> Body:
    """The object; ClusterUnavailable names the one that is damaged."""
    body = sound(text, kind)
    if body is None:
        raise ClusterUnavailable(
            f"{kind} {where} is damaged",
            attempted="use the local object store",
            on="objects.db",
            advice=ADVICE,
        )
    return body


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
