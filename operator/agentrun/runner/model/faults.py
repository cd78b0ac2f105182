"""What a failed try means: try again, give up, or the request itself is wrong.

Judged here from plain facts (status, error type, code, headers), so that the table can be read and
tested without the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum

from agentrun.run.records import Usage


class Kind(Enum):
    """What may be done about a fault."""

    AGAIN = "again"
    """The provider or the way to it; the same request may succeed later."""
    REPLY = "reply"
    """The reply cannot be used; another one may be. When tries are used up, it is refused."""
    REFUSED = "refused"
    """The request is wrong and will stay wrong."""
    ACCOUNT = "account"
    """The key or the account; somebody must act."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a try failed. ``why`` holds no content of the conversation and no secret."""

    kind: Kind
    why: str
    status: int | None = None
    credit: bool = False
    retry_after: float | None = None


class TryFailed(Exception):
    """One try at a request failed. ``usage`` is what the provider had counted by then."""

    def __init__(self, fault: Fault, usage: Usage | None = None) -> None:
        super().__init__(fault.why)
        self.fault = fault
        self.usage = usage


CREDIT_CODES = frozenset(
    {
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "linked_organization_billing_unavailable",
        "linked_organization_spend_limit_reached",
        "organization_on_hold",
        "ramp_limit_exceeded",
    }
)
"""Error codes that come with various statuses, 429 among them, and that no waiting cures."""

_ACCOUNT_TYPES = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
}
_REFUSED_TYPES = {"invalid_request_error": 400, "not_found_error": 404, "request_too_large": 413}
_AGAIN_STATUSES = frozenset({408, 409, 425, 429, 499})
_NO_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)
_SECRET = re.compile(r"\b(sk-[\w-]{4,}|Bearer\s+\S+)", re.IGNORECASE)
_MESSAGE_MAX = 200


def judge_status(
    status: int,
    *,
    error_type: str = "",
    code: str = "",
    message: str = "",
    headers: Mapping[str, str] | None = None,
    secret: str | None = None,
) -> Fault:
    """An HTTP answer that is not a reply."""
    headers = headers or {}
    why = _why(f"HTTP {status}", error_type, code, message, secret)
    credit = (
        status == 402
        or error_type == "billing_error"
        or code in CREDIT_CODES
        or (status == 400 and _NO_CREDIT.search(message) is not None)
    )
    if credit or status in (401, 403):
        return Fault(Kind.ACCOUNT, why, status, credit=credit)
    if status in _AGAIN_STATUSES or status >= 500:
        return Fault(Kind.AGAIN, why, status, retry_after=retry_after(headers))
    return Fault(Kind.REFUSED, why, status)


def judge_event(error_type: str, code: str, message: str, secret: str | None) -> Fault:
    """An ``error`` event inside a stream that had begun well. An unknown type is tried again."""
    why = _why("error event", error_type, code, message, secret)
    if error_type in _ACCOUNT_TYPES or code in CREDIT_CODES:
        credit = error_type == "billing_error" or code in CREDIT_CODES
        return Fault(Kind.ACCOUNT, why, _ACCOUNT_TYPES.get(error_type), credit=credit)
    if error_type in _REFUSED_TYPES:
        return Fault(Kind.REFUSED, why, _REFUSED_TYPES[error_type])
    return Fault(Kind.AGAIN, why)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the provider asks us to wait. A date counts from the answer's own Date, not our clock."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (TypeError, ValueError):
        return None


def _why(what: str, error_type: str, code: str, message: str, secret: str | None) -> str:
    kind = ", ".join(part for part in (error_type, code) if part)
    return f"{what} ({kind}){_said(message, secret)}" if kind else f"{what}{_said(message, secret)}"


def _said(message: str, secret: str | None) -> str:
    """The provider's own words: bounded, on one line, without the key that some gateways echo."""
    if secret:
        message = message.replace(secret, "[key]")
    text = " ".join(_SECRET.sub("[key]", message).split())
    return f": {text[:_MESSAGE_MAX]}" if text else ""
