"""What a request came to: an answer, silence, or provably nothing.

Only what the server itself said is an answer. Where it cannot be told apart from what the SDK or a
proxy made up, it is silence: a needless question is better than an effect that happens twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrun.run.records import Json
from agentrun.runner.tools.exchange import Exchange, RpcError

_MAX = 200

REFUSED_FOR_NOW = frozenset({429})
REFUSED_FOR_GOOD = frozenset({307, 308, 401, 403, 404, 405, 406, 411, 415, 421, 431})
"""Statuses that mean that the request was turned away unprocessed. 400, 502, 504, other 5xx and the
redirects that follow a processed POST are not among them; 503 only with Retry-After, because proxies
also say 503 when the server broke off in the middle."""
TOO_LARGE = 413
METHOD_NOT_FOUND = -32601

_INVENTED: dict[int, tuple[str, ...]] = {
    -32000: ("Connection closed", "SSE stream"),
    -32001: ("Request '",),
    -32600: ("server answered a request with 202", "Redirect to", "Unexpected content type"),
    -32603: ("Server returned an error response",),
    -32700: ("Failed to parse",),
}
"""Errors that the SDK makes up, by code and beginning; those for 404 are told by the status. A server
that passes one on from a server behind it says the same: that it does not know."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The server's result, an error result included."""

    result: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Declined:
    """The server's JSON-RPC error."""

    error: RpcError


@dataclass(frozen=True, slots=True)
class Silent:
    """It was sent, or may have been, and the server did not answer."""

    why: str


class Unreachable(Exception):
    """Nothing was executed. ``again``: worth another try soon. ``lost``: the connection's session is
    gone and a new connection is needed. ``down``: nobody listened. ``retry_after``: seconds the server asked
    for."""

    def __init__(
        self,
        why: str,
        *,
        again: bool = True,
        lost: bool = False,
        down: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(why)
        self.why = why
        self.again = again
        self.lost = lost
        self.down = down
        self.retry_after = retry_after


class Forbidden(Exception):
    """``may_send`` said no; nothing was sent."""


Verdict = Answered | Declined | Silent


def verdict(exchange: Exchange, *, session: bool) -> Verdict:
    """Judge a finished exchange. ``session``: the connection has a session that can be lost.

    Raises Unreachable or Forbidden when nothing was executed.
    """
    if exchange.result is not None:
        return Answered(exchange.result)
    if exchange.forbidden:
        raise Forbidden
    said = _said(exchange)
    if said is not None:
        if session and exchange.status in (400, 404) and "session" in said.message.lower():
            raise Unreachable(_short(said.message), lost=True)
        return Declined(said)
    if not exchange.sent:
        raise Unreachable(exchange.fault or "no connection", down=True)
    if exchange.status is not None:
        _refused(exchange, exchange.status, session=session)
    if exchange.status == TOO_LARGE:
        return Declined(RpcError(TOO_LARGE, "the request is larger than the server accepts"))
    return Silent(_why(exchange))


def _said(exchange: Exchange) -> RpcError | None:
    if exchange.spoken is not None:
        return exchange.spoken
    ok = exchange.status is None or 200 <= exchange.status < 300
    if not ok or exchange.error is None or invented(exchange.error):
        return None
    return exchange.error


def invented(error: RpcError) -> bool:
    """Whether the SDK, not the server, says this."""
    return error.message.startswith(_INVENTED.get(error.code, ("\0",)))


def _refused(exchange: Exchange, status: int, *, session: bool) -> None:
    """Raise Unreachable if this status means that nothing was executed."""
    if status == 404 and session:
        raise Unreachable("its session is gone", lost=True)
    if status in REFUSED_FOR_GOOD:
        raise Unreachable(f"HTTP {status}", again=False)
    if status in REFUSED_FOR_NOW or (status == 503 and exchange.retry_after is not None):
        raise Unreachable(f"HTTP {status}", retry_after=exchange.retry_after)


def _why(exchange: Exchange) -> str:
    if exchange.status is not None and not 200 <= exchange.status < 300:
        return f"HTTP {exchange.status}"
    if exchange.fault:
        return _short(exchange.fault)
    return _short(exchange.error.message) if exchange.error is not None else "no answer"


def _short(text: str) -> str:
    return " ".join(text.split())[:_MAX]
