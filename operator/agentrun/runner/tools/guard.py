"""The HTTP transport under the SDK's client.

Three things need to be below the SDK. A transport error in one call would end the client for all, so
it becomes a made-up answer and a note. The moment at which bytes leave is known only here. And the
text of an answer must be mended before anything parses it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from agentrun.run.surrogates import mend_json
from agentrun.runner.tools.exchange import CURRENT, Exchange, RpcError
from agentrun.runner.tools.targets import Target

MADE_UP = 599
ANSWER_MAX = 64 << 20
"""Bytes of one answer. An answer beyond it is cut off, and so no answer."""
_ERROR_MAX = 1 << 20
_CONNECT = 10.0
_WRITE = 60.0
_BACKGROUND = 10.0
_AFTER = 15.0
"""Seconds above the call's own timeout, so that the timeout ends a call and not the connection."""


class _Held(Exception):
    """The bytes may not leave."""


class Guard(httpx2.AsyncBaseTransport):
    """See the module. ``session`` is the session id the server gave, if it gave one."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.session: str | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # A GET resumes a stream that broke off: the request itself left long ago.
        exchange = CURRENT.get() if request.method == "POST" else None
        self._prepare(request, exchange)
        try:
            response = await self._inner.handle_async_request(request)
        except _Held:
            return httpx2.Response(MADE_UP, request=request)
        except httpx2.TransportError as error:
            note(exchange, error)
            return httpx2.Response(MADE_UP, request=request)
        self.session = response.headers.get("mcp-session-id", self.session)
        if exchange is not None:
            exchange.status = response.status_code
            exchange.retry_after = _seconds(response.headers.get("retry-after"))
        body = Mended(response, exchange)
        if exchange is not None and response.status_code >= 300:
            return await _read_error(response, body, exchange)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=body,
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _prepare(self, request: httpx2.Request, exchange: Exchange | None) -> None:
        if exchange is not None:
            read: float | None = exchange.seconds + _AFTER
        else:
            read = None if request.method == "GET" else _BACKGROUND
        limits = {"connect": _CONNECT, "write": _WRITE, "pool": _WRITE, "read": read}
        request.extensions = {**request.extensions, "timeout": limits}
        if exchange is None:
            return
        if exchange.key:
            request.headers["Idempotency-Key"] = exchange.key

        async def trace(event: str, info: dict[str, Any]) -> None:
            """The last moment before bytes leave. A proxy's CONNECT carries none of the request."""
            leaving = event.endswith("send_request_headers.started")
            if leaving and info["request"].method != b"CONNECT" and not exchange.allows():
                raise _Held

        request.extensions["trace"] = trace


class Mended(httpx2.AsyncByteStream):
    """A body, line by line, without escapes of lone surrogates. A body that breaks off just ends:
    what is missing makes it unreadable, and the note says why."""

    def __init__(self, response: httpx2.Response, exchange: Exchange | None) -> None:
        self._inner = response.stream
        self._exchange = exchange
        self._plain = "content-encoding" not in response.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        try:
            async for chunk in self._inner:  # type: ignore[union-attr]
                size += len(chunk)
                if self._exchange is not None and size > ANSWER_MAX:
                    self._exchange.fault = f"the answer is larger than {ANSWER_MAX >> 20} MiB"
                    return
                head, newline, tail = chunk.rpartition(b"\n")
                if not newline:
                    parts.append(chunk)
                    continue
                yield self._mend(b"".join((*parts, head, newline)))
                parts = [tail] if tail else []
            if parts:
                yield self._mend(b"".join(parts))
        except httpx2.TransportError as error:
            note(self._exchange, error)
        except UnicodeDecodeError:
            if self._exchange is not None:
                self._exchange.fault = "the answer is not UTF-8"

    async def aclose(self) -> None:
        await self._inner.aclose()  # type: ignore[union-attr]

    def _mend(self, text: bytes) -> bytes:
        if not self._plain:
            return text
        if not text.isascii():
            text.decode()  # the SDK would replace what is not UTF-8, and nobody would know
        mended, count = mend_json(text)
        if self._exchange is not None:
            self._exchange.sanitized += count
        return mended


def note(exchange: Exchange | None, error: httpx2.TransportError) -> None:
    """Say what broke, without the address: it may hold secrets."""
    if exchange is not None and not exchange.fault:
        what = {
            httpx2.ConnectError: "connection refused",
            httpx2.ConnectTimeout: "no connection in time",
            httpx2.ReadTimeout: "no answer in time",
        }.get(type(error), "the connection broke")
        exchange.fault = f"{what} ({type(error).__name__})"


async def _read_error(
    response: httpx2.Response, body: Mended, exchange: Exchange
) -> httpx2.Response:
    """The answer with its body read, so that a JSON-RPC error in it is known for the server's own."""
    text = b""
    try:
        async for part in body:
            text += part
            if len(text) > _ERROR_MAX:
                break
    finally:
        await body.aclose()
    exchange.spoken = _rpc_error(text)
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in ("content-length", "transfer-encoding", "content-encoding")
    ]
    return httpx2.Response(response.status_code, headers=headers, content=text)


def _rpc_error(text: bytes) -> RpcError | None:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match body:
        case {"jsonrpc": "2.0", "error": {"code": int(code), "message": str(message), **more}}:
            return RpcError(code, message, more.get("data"))
    return None


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return 0.0 if text else None
    return value if 0 <= value < float("inf") else None


def open_http(target: Target) -> tuple[httpx2.AsyncClient, Guard]:
    """A client for one server. A connection is used once: a server that was restarted then refuses
    it, which is nothing sent, where a kept one would break in mid-request, which is unknown."""
    guard = Guard(
        httpx2.AsyncHTTPTransport(
            trust_env=target.trust_env,
            limits=httpx2.Limits(max_keepalive_connections=0),
            uds=str(target.socket) if target.socket is not None else None,
            proxy=_proxy(target),
        )
    )
    headers = [*target.headers, ("Accept-Encoding", "identity")]
    return httpx2.AsyncClient(transport=guard, headers=headers, trust_env=False), guard


def _proxy(target: Target) -> str | None:
    parts = urlsplit(target.url)
    if not target.trust_env or proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return found if not found or "://" in found else f"http://{found}"
