"""The SDK's message streams, with a look at what passes.

Outgoing: which request belongs to which exchange. Incoming: the raw result, taken out before the
SDK validates it, because it refuses content of unknown types after the tool has run.
"""

from __future__ import annotations

import contextvars
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from anyio import EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from agentrun.runner.tools.exchange import CURRENT, Exchange, RpcError

_PLACEHOLDER: dict[str, Any] = {"content": [], "resultType": "complete"}
"""A result that every protocol version accepts."""

_TRACE = ("traceparent", "tracestate", "baggage")
"""Put into every request by the SDK, whatever its receiver."""

Streams = tuple[Any, Any]
"""Read and write stream of a transport."""


@dataclass
class MendedMessage(SessionMessage):
    """A message in whose text lone surrogates were replaced."""

    sanitized: int = 0


@dataclass
class Tap:
    """The look at one connection."""

    ended: Callable[[], None]
    waiting: dict[str, Exchange] = field(default_factory=dict)

    @asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[Streams]) -> AsyncIterator[Streams]:
        """The transport, tapped."""
        async with transport as (read, write):
            yield TapRead(read, self), TapWrite(write, self)

    def outgoing(self, message: Any) -> Exchange | None:
        """The exchange that this message is the request of, if it is one."""
        exchange = CURRENT.get()
        if not isinstance(message, JSONRPCRequest):
            return None
        meta = (message.params or {}).get("_meta")
        if isinstance(meta, dict):
            for name in _TRACE:
                meta.pop(name, None)
        if exchange is None:
            return None
        if exchange.request_id is not None and not exchange.many:
            return None
        exchange.begin(str(message.id))
        self.waiting[str(message.id)] = exchange
        return exchange

    def leaving(self, message: Any) -> bool:
        """For a transport without a guard: whether this message may leave now."""
        if not isinstance(message, JSONRPCRequest):
            return True
        exchange = self.waiting.get(str(message.id))
        return exchange is None or exchange.allows()

    def incoming(self, item: SessionMessage | Exception) -> None:
        if not isinstance(item, SessionMessage):
            return
        message = item.message
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return
        exchange = self.waiting.pop(str(message.id), None)
        if exchange is None:
            return
        exchange.sanitized += getattr(item, "sanitized", 0)
        if isinstance(message, JSONRPCError):
            error = message.error
            exchange.error = RpcError(error.code, error.message, error.data)
            return
        exchange.result = message.result
        if exchange.opaque:
            message.result = dict(_PLACEHOLDER)

    def forget(self, exchange: Exchange) -> None:
        """Nobody waits for it any more; a late answer is nobody's."""
        if exchange.request_id is not None:
            self.waiting.pop(exchange.request_id, None)


class TapWrite:
    """A write stream. Messages that are not an exchange's own request travel without it, so that a
    cancellation sent on its behalf does not write into its notes."""

    def __init__(self, inner: Any, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def send(self, item: SessionMessage, /) -> None:
        if self._tap.outgoing(item.message) is not None:
            await self._inner.send(item)
            return
        token = CURRENT.set(None)
        try:
            await self._inner.send(item)
        finally:
            CURRENT.reset(token)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> TapWrite:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class TapRead:
    """A read stream; tells when it ends, because the SDK tells nobody."""

    def __init__(self, inner: Any, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    @property
    def last_context(self) -> contextvars.Context | None:
        context: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return context

    async def receive(self) -> Any:
        try:
            item = await self._inner.receive()
        except EndOfStream:
            self._tap.ended()
            raise
        self._tap.incoming(item)
        return item

    def __aiter__(self) -> TapRead:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> TapRead:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
