"""Objects made from what a cluster returns, which another release may have written."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from agentrun.api import AgentRun, Approval
from agentrun.errors import Rejected

T = TypeVar("T", AgentRun, Approval)
log = logging.getLogger(__name__)


def parsed(kind: type[T], body: Mapping[str, Any]) -> T:
    """One object; Rejected when this release cannot read it."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        metadata = body["metadata"]
        raise Rejected(
            f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}",
            attempted=f"read {kind.__name__}",
            on=f"{metadata['namespace']}/{metadata['name']}",
            advice="It may have been written by a newer release",
        ) from None


def readable(kind: type[T], bodies: Iterable[Mapping[str, Any]]) -> list[T]:
    """Those objects that this release can read. One that it cannot must not hide all the others;
    it is named in the log and left alone."""
    found: list[T] = []
    for body in bodies:
        try:
            found.append(parsed(kind, body))
        except Rejected as error:
            log.warning("unreadable object: %s", error)
    return found
