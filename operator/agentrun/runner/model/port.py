"""What the loop sees of the model: one call, its errors, and notes on how it went."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from agentrun.run.records import Usage
from agentrun.run.values import ModelRequest, Reply


class Model(Protocol):
    """The model provider. Nothing is imported or connected before the first request."""

    async def complete(self, request: ModelRequest) -> Reply:
        """Send exactly ``request.body`` and return the whole reply.

        Retries inside. Raises ModelUnavailable or ModelRefused. A reply that
        broke off is never returned.
        """
        ...

    async def close(self) -> None:
        """Close the connections. A request that is under way ends with CancelledError or an error."""
        ...


@dataclass(frozen=True, slots=True)
class ModelNote:
    """Something worth a metric or a log line; no content, no secrets.

    ``progress``: the stream is alive (content arrived; pings do not count), at most once a second.
    ``retry``: a try failed, the next one follows after ``wait`` seconds. ``replied`` and ``failed``
    end a request. ``usage`` of a failed try is what the provider had counted: paid for, not used.
    """

    what: Literal["progress", "retry", "replied", "failed"]
    tried: int
    seconds: float
    status: int | None = None
    why: str = ""
    wait: float = 0.0
    usage: Usage | None = None
    sanitized: int = 0
    """Lone surrogates that were replaced in the reply."""


Observe = Callable[[ModelNote], None]
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
Random = Callable[[], float]
