"""What the loop sees of the model: one call, its errors, and notes on how it went."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from agentrun.errors import ModelUnavailable
from agentrun.run.records import Usage
from agentrun.run.values import ModelRequest, Reply


class Model(Protocol):
    """The model provider. Nothing is imported or connected before the first request."""

    async def complete(self, request: ModelRequest) -> Reply:
        """Send exactly ``request.body`` and return the whole reply.

        Retries inside. Raises ProviderUnavailable (a ModelUnavailable) or ModelRefused. A reply that
        broke off is never returned.
        """
        ...

    async def close(self) -> None:
        """Close the connections. A request that is under way ends with CancelledError or an error."""
        ...


class ProviderUnavailable(ModelUnavailable):
    """ModelUnavailable, and why: the loop decides from these whether to fail or to suspend (H34).

    ``auth``: the key is missing, wrong or not allowed. ``credit``: the account cannot pay. With
    either, waiting alone does not help. ``retry_after`` is the provider's own wish in seconds, if it
    asked for more patience than one attempt has.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        auth: bool = False,
        credit: bool = False,
        retry_after: float | None = None,
        tries: int = 1,
        attempted: str = "",
        on: str = "",
        advice: str = "",
    ) -> None:
        super().__init__(message, attempted=attempted, on=on, advice=advice)
        self.status = status
        self.auth = auth
        self.credit = credit
        self.retry_after = retry_after
        self.tries = tries


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
