"""A live connection to one tool server. Importing this module imports the MCP SDK.

The SDK's client lives in a task of its own: when a connection dies, the SDK cancels the task that
opened it, which must never be one that does anything else.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import mcp.client.session
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared import _otel
from opentelemetry.trace import NoOpTracer
from pydantic import BaseModel

from agentrun import __version__
from agentrun.run.records import Json
from agentrun.runner.tools.child import child_transport
from agentrun.runner.tools.exchange import CURRENT, Exchange
from agentrun.runner.tools.guard import Guard, open_http
from agentrun.runner.tools.port import OfferedTool
from agentrun.runner.tools.tap import Streams, Tap
from agentrun.runner.tools.targets import Kind, Target
from agentrun.runner.tools.verdict import Answered, Silent, Unreachable, Verdict, verdict

EVENT_MAX = 32 << 20
"""Bytes of one server-sent event; the SDK's own limit of 1 MiB is below an ordinary image."""
_CONNECT = 30.0
_CLOSE = 10.0
_AFTER = 5.0
_PAGES = 100
log = logging.getLogger(__name__)

for _name in ("mcp", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)
_otel._tracer = NoOpTracer()  # noqa: SLF001 - the SDK has no switch: no spans, no traceparent in _meta


class Connection:
    """See the module. Once it is not ``alive`` any more it stays so; open another one."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._up = False
        self._client: Client | None = None
        self._guard: Guard | None = None
        self._greeting = Exchange(many=True, seconds=_CONNECT)
        self._stop = asyncio.Event()
        self._tap = Tap(ended=self._stop.set)
        self._owner: asyncio.Task[None] | None = None
        self._listed = False

    @classmethod
    async def open(cls, target: Target) -> Connection:
        """Connect and shake hands. Raises Unreachable."""
        if target.kind is Kind.WORKSPACE and target.socket is None:
            raise Unreachable("the socket of the workspace was not given", again=False)
        connection = cls(target)
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        connection._owner = asyncio.create_task(
            connection._own(ready), name=f"tool server {target.name}"
        )
        try:
            async with asyncio.timeout(_CONNECT):
                await asyncio.shield(ready)
        except TimeoutError:
            await connection.close()
            raise Unreachable(f"no handshake within {_CONNECT:g} s") from None
        except BaseException:
            await connection.close()
            raise
        return connection

    @property
    def alive(self) -> bool:
        """Whether it is worth asking."""
        return self._up and not self._stop.is_set()

    @property
    def session(self) -> str | None:
        """The session that this connection depends on, if the server keeps one."""
        return self._guard.session if self._guard is not None else None

    async def tools(self) -> tuple[list[OfferedTool], Verdict]:
        """What the server offers, and the verdict on the last request that was made for it."""
        found: list[OfferedTool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            exchange = Exchange(seconds=_CONNECT)
            page: list[types.ListToolsResult] = []

            async def ask(cursor: str | None = cursor, page: Any = page) -> None:
                page.append(await self._session().list_tools(params=_page(cursor)))

            await self._during(exchange, ask)
            judged = self._judge(exchange)
            if not page:
                usable = not isinstance(judged, Answered)
                return found, judged if usable else Silent(exchange.fault)
            found += [self._offered(tool) for tool in page[0].tools]
            cursor = page[0].next_cursor
            if cursor is None:
                break
        self._listed = True
        return found, judged

    async def call(
        self, name: str, arguments: dict[str, Json], meta: dict[str, Json], exchange: Exchange
    ) -> Verdict:
        """Send one tools/call. Raises Unreachable or Forbidden when nothing was executed."""
        exchange.opaque = True
        if self._guard is not None and not self._listed:
            await self.tools()  # in the new protocol, arguments may have to travel as headers too
        params = types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta)
        request = types.CallToolRequest(params=params)
        return await self._request(request, types.CallToolResult, exchange)

    async def read(self, uri: str) -> Verdict:
        """Send one resources/read."""
        params = types.ReadResourceRequestParams(uri=uri)
        exchange = Exchange(seconds=_CONNECT)
        request = types.ReadResourceRequest(params=params)
        return await self._request(request, types.ReadResourceResult, exchange)

    async def close(self) -> None:
        """End the connection, and a child with its whole process group."""
        self._stop.set()
        if self._owner is None:
            return
        await asyncio.wait({self._owner}, timeout=_CLOSE)
        self._owner.cancel()
        await asyncio.wait({self._owner}, timeout=_CLOSE)

    async def _request(self, request: Any, result: type[BaseModel], exchange: Exchange) -> Verdict:
        async def ask() -> None:
            await self._session().send_request(
                request, result, request_read_timeout_seconds=exchange.seconds
            )

        await self._during(exchange, ask)
        return self._judge(exchange)

    async def _during(self, exchange: Exchange, ask: Any) -> None:
        """Ask, with the exchange as what the notes are made in. What the SDK raises is one more
        note; only the cancellation of the caller is passed on."""
        token = CURRENT.set(exchange)
        try:
            async with asyncio.timeout(exchange.seconds + _AFTER):
                await ask()
        except TimeoutError:
            exchange.fault = exchange.fault or f"no answer within {exchange.seconds:g} s"
        except MCPError as error:
            late = error.code == types.REQUEST_TIMEOUT
            why = f"no answer within {exchange.seconds:g} s" if late else error.message
            exchange.fault = exchange.fault or why
        except Exception as error:  # noqa: BLE001 - whatever it is, the call may have run
            exchange.fault = exchange.fault or f"the answer is unusable ({type(error).__name__})"
        finally:
            exchange.over = True
            CURRENT.reset(token)
            self._tap.forget(exchange)

    def _offered(self, tool: types.Tool) -> OfferedTool:
        hints = tool.annotations
        return OfferedTool(
            self.target.name,
            tool.name,
            tool.description or "",
            tool.input_schema,
            hints.model_dump(mode="json", by_alias=True, exclude_none=True) if hints else None,
        )

    def _judge(self, exchange: Exchange) -> Verdict:
        return verdict(exchange, session=self.session is not None)

    def _session(self) -> mcp.client.session.ClientSession:
        if self._client is None or not self.alive:
            raise ConnectionError("the connection is gone")
        return self._client.session

    async def _own(self, ready: asyncio.Future[None]) -> None:
        """The life of the connection."""
        CURRENT.set(self._greeting)
        try:
            async with AsyncExitStack() as stack:
                client = Client(
                    self._tap.over(await self._transport(stack)),
                    cache=None,
                    client_info=types.Implementation(name="agentrun", version=__version__),
                    read_timeout_seconds=_CONNECT,
                )
                self._client = await stack.enter_async_context(client)
                CURRENT.set(None)
                self._up = True
                ready.set_result(None)
                await self._stop.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(self._reason(error))
            else:  # calls under way have verdicts of their own; a text could hold their data
                log.debug("tool server %s: lost by %s", self.target.name, type(error).__name__)
            if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._up = False

    async def _transport(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Streams]:
        target = self.target
        if target.kind is Kind.CHILD:
            return child_transport(target, self._tap.leaving)
        http, self._guard = open_http(target)
        await stack.enter_async_context(http)
        return streamable_http_client(target.url, http_client=http, max_sse_event_size=EVENT_MAX)

    def _reason(self, error: BaseException) -> Unreachable:
        """Why the handshake failed: what HTTP said, else what broke, else the SDK's words."""
        if isinstance(error, OSError | ValueError):
            program = Path(self.target.command[0]).name if self.target.command else ""
            what = f"its command {program}" if program else "it"
            return Unreachable(f"{what} cannot be started ({type(error).__name__})", again=False)
        greeting = self._greeting
        try:
            judged = verdict(greeting, session=False)
        except Unreachable as unreachable:
            return unreachable
        why = getattr(judged, "why", None) or getattr(getattr(judged, "error", None), "message", "")
        return Unreachable(f"no handshake: {why or type(error).__name__}")


def _page(cursor: str | None) -> types.PaginatedRequestParams | None:
    return types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
