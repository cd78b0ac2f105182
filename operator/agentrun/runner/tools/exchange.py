"""One request to a tool server, as the wire saw it.

The SDK reports a dozen different things as one error code, so what really happened is noted below
it: whether bytes left, what HTTP said, what JSON-RPC said. The verdict is made from these notes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from agentrun.run.records import Json


@dataclass(frozen=True, slots=True)
class RpcError:
    """A JSON-RPC error."""

    code: int
    message: str
    data: Json = None


def _always() -> bool:
    return True


@dataclass(slots=True)
class Exchange:
    """Notes on one request. It is found through a context variable, which reaches the tasks that the
    SDK starts for it."""

    may_send: Callable[[], bool] = _always
    """Asked when the bytes are about to leave."""
    key: str = ""
    """Sent as Idempotency-Key, if any."""
    seconds: float = 60.0
    """How long an answer may take."""
    opaque: bool = False
    """Keep the result away from the SDK's validation, which refuses what it does not know."""
    many: bool = False
    """Several requests, one after the other (a handshake): the notes are about the latest."""

    request_id: str | None = None
    sent: bool = False
    """Bytes of the request left, or may have."""
    forbidden: bool = False
    """``may_send`` said no."""
    over: bool = False
    """Nobody waits any more: what has not left by now must not."""
    status: int | None = None
    """HTTP status of the answer; None on other transports."""
    retry_after: float | None = None
    """Retry-After, in seconds."""
    spoken: RpcError | None = None
    """A JSON-RPC error in the body of an HTTP error."""
    error: RpcError | None = None
    """A JSON-RPC error that came as an answer; it may be an invention of the SDK."""
    result: dict[str, Json] | None = None
    """The result, untouched."""
    fault: str = ""
    """What broke, in a few words."""
    sanitized: int = 0
    """Lone surrogates replaced in the answer."""

    def begin(self, request_id: str) -> None:
        """A request of this exchange is handed to the transport."""
        self.request_id = request_id
        self.sent = False
        self.status = self.retry_after = self.spoken = self.error = self.result = None
        self.fault = ""

    def allows(self) -> bool:
        """Whether the bytes may leave now; notes it either way."""
        if self.over or not self.may_send():
            self.forbidden = True
            return False
        self.sent = True
        return True


CURRENT: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
"""The exchange of whatever runs now."""
