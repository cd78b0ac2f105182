"""The API server's refusals as our errors.

Messages reach status, Events and logs, and manifests hold prompts: values that the API server
quotes back are taken out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from agentrun.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnavailable,
    Conflict,
    Forbidden,
    NotFound,
    Rejected,
)

MESSAGE_MAX: Final = 512

_VALUE = re.compile(
    r'(Invalid value|Unsupported value|Duplicate value): (?:"(?:[^"\\]|\\.)*"|\S+)(?=:|,|$)'
)


_NOT_IN_SCHEMA: Final = "failed to create typed patch object"


class Expired(ClusterError):
    """The version that a paged list was reading is gone: start again."""

    retryable = True


def refusal(status: int, text: str, attempted: str, on: str) -> ClusterError:
    """The error for an answer that is no success.

    AlreadyExists and Conflict share the status 409; the reason in the body tells them apart. A 404
    speaks of an object only if it names one: a kind that is not served (yet) and a proxy that has
    lost its way answer 404 as well, and what is not there is revoked or replaced.
    """
    told = _explained(text)
    reason, message = told.reason, told.message
    where = {"attempted": attempted, "on": on}
    if status == 404 and told.name:
        return NotFound(message or "no such object", **where)
    if status == 404:
        advice = "Are the custom resources installed, and is this the API server?"
        return ClusterUnavailable(message or "nothing is served there", **where, advice=advice)
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists("an object of that name exists", **where)
    if status == 409:
        return Conflict(message or "it changed since it was read", **where)
    if status == 410:
        return Expired(message or "the list expired", **where)
    if status == 403:
        return Forbidden(message or "not allowed", **where)
    if status == 401:
        advice = "Check the kubeconfig or the service account's token"
        return ClusterUnavailable("the credentials were refused", **where, advice=advice)
    if _NOT_IN_SCHEMA in message:  # server-side apply says this as a 500
        return Rejected(message, **where)
    if status == 429 or status >= 500:
        return ClusterUnavailable(message or f"HTTP {status}", **where)
    return Rejected(message or f"HTTP {status}", **where)


def retry_after(status: int, header: str | None) -> float | None:
    """Seconds to wait before sending it again; None if it may have been executed."""
    if header is not None and header.isdigit() and status in (429, 503):
        return float(header)
    return 1.0 if status == 429 else None


@contextmanager
def reachable(attempted: str, on: str) -> Iterator[None]:
    """No answer, or half of one: whether it was executed is not known."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ClusterUnavailable(
            f"no answer from the API server ({type(error).__name__})", attempted=attempted, on=on
        ) from error


@dataclass(frozen=True, slots=True)
class _Told:
    """What a Status says: values are taken out of the message; ``name`` is of the object at fault."""

    reason: str = ""
    message: str = ""
    name: str = ""


def _explained(text: str) -> _Told:
    try:
        status: Any = json.loads(text)
    except ValueError:
        return _Told()
    if not isinstance(status, dict):
        return _Told()
    message = _VALUE.sub(r"\1", str(status.get("message") or ""))
    name = (status.get("details") or {}).get("name")
    return _Told(str(status.get("reason") or ""), message[:MESSAGE_MAX], str(name or ""))
