"""All tool servers of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agentrun.errors import NotSent, ToolServerUnavailable
from agentrun.run.records import Json
from agentrun.run.surrogates import mend
from agentrun.run.values import OutgoingCall, ToolAnswer, ToolOutcome, ToolSilence
from agentrun.runner.tools.content import error_content, result_content
from agentrun.runner.tools.exchange import Exchange
from agentrun.runner.tools.files import NotCaptured
from agentrun.runner.tools.meta import call_meta
from agentrun.runner.tools.port import Fetch, Files, OfferedTool
from agentrun.runner.tools.server import Patience, Server
from agentrun.runner.tools.targets import Target
from agentrun.runner.tools.verdict import (
    METHOD_NOT_FOUND,
    Answered,
    Declined,
    Forbidden,
    Silent,
    Unreachable,
    Verdict,
)
from agentrun.workspace.protocol import INTERNAL_PREFIX, META_GENERATION, META_NOT_SENT

if TYPE_CHECKING:
    from agentrun.runner.tools.connection import Connection

_CALL = "call a tool"


class Servers:
    """The ToolServers of the runner; see :class:`agentrun.runner.tools.port.ToolServers`."""

    def __init__(self, targets: Iterable[Target], patience: Patience) -> None:
        self._clock = patience.clock
        self._servers = {target.name: Server(target, patience) for target in targets}

    async def offered(self, servers: Sequence[str]) -> tuple[OfferedTool, ...]:
        """Asked all at once; a server that has no tools at all offers none."""
        lists = await asyncio.gather(*(self._list(name) for name in servers))
        return tuple(tool for tools in lists for tool in tools)

    async def call(
        self, call: OutgoingCall, *, may_send: Callable[[], bool], not_after: float | None = None
    ) -> ToolOutcome:
        """``not_after``: wall-clock seconds after which the bundled server refuses the call."""
        server = self._server(call.server)
        async with server.turn():
            await self._ready(server)
            arguments, replaced = mend(call.arguments)
            if not isinstance(arguments, dict):
                return _refusal("arguments must be a JSON object")
            exchanges: list[Exchange] = []

            async def send(connection: Connection) -> Verdict:
                exchange = Exchange(may_send, call.key, call.timeout_ms / 1000)
                exchanges.append(exchange)
                return await connection.call(
                    call.tool, arguments, call_meta(call, not_after), exchange
                )

            started = self._clock()
            judged = await self._reach(server, _CALL, send)
            spent = round((self._clock() - started) * 1000)
            sanitized = replaced + exchanges[-1].sanitized
            return await self._outcome(
                server, judged, spent, sanitized, timed=not_after is not None
            )

    async def restore_files(self, server: str, files: Files, fetch: Fetch) -> None:
        """Only for a workspace whose files are recorded; nothing to do for any other."""
        found = self._server(server)
        if found.files is None:
            return
        async with found.turn():
            try:
                await found.files.restore(files, fetch, found.mark())
            except Unreachable as error:
                raise _unavailable(found, "restore the workspace", error) from None

    async def generation(self, server: str) -> str | None:
        """As of the last answer. A recorded workspace has none: what it loses is put back."""
        return self._server(server).generation()

    async def close(self) -> None:
        """All at once."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    async def _list(self, name: str) -> list[OfferedTool]:
        server = self._server(name)

        async def ask(connection: Connection) -> Verdict:
            found, judged = await connection.tools()
            tools[:] = found
            return judged

        tools: list[OfferedTool] = []
        judged = await self._reach(server, "list its tools", ask)
        if isinstance(judged, Declined) and judged.error.code == METHOD_NOT_FOUND:
            return []
        if not isinstance(judged, Answered):
            why = judged.why if isinstance(judged, Silent) else judged.error.message
            raise _unavailable(server, "list its tools", Unreachable(why[:200]))
        once = {tool.name: tool for tool in reversed(tools)}
        return [
            tool
            for tool in tools
            if once[tool.name] is tool and not tool.name.startswith(INTERNAL_PREFIX)
        ]

    async def _ready(self, server: Server) -> None:
        if server.files is None:
            return
        try:
            await server.files.ready(server.mark())
        except Unreachable as error:
            raise _unavailable(server, "restore the workspace", error) from None

    async def _reach(
        self, server: Server, attempted: str, work: Callable[[Connection], Awaitable[Verdict]]
    ) -> Verdict:
        try:
            return await server.patiently(work)
        except Unreachable as error:
            raise _unavailable(server, attempted, error) from None
        except Forbidden:
            raise NotSent(
                "it may not be sent any more", attempted=attempted, on=server.target.name
            ) from None

    async def _outcome(
        self, server: Server, judged: Verdict, spent: int, sanitized: int, *, timed: bool
    ) -> ToolOutcome:
        if isinstance(judged, Silent):
            return ToolSilence(judged.why)
        if isinstance(judged, Declined):
            return ToolAnswer(error_content(judged.error), True, spent, sanitized=sanitized)
        meta = judged.result.get("_meta")
        own = meta if isinstance(meta, dict) and server.target.persistence is not None else {}
        if own.get(META_NOT_SENT) is True:
            refused = NotSent if timed else ToolServerUnavailable
            raise refused("the workspace turned it away", attempted=_CALL, on=server.target.name)
        server.seen_generation = own.get(META_GENERATION, server.seen_generation)
        content, failed = result_content(judged.result)
        if server.files is None:
            return ToolAnswer(content, failed, spent, sanitized=sanitized)
        try:
            changes, blobs = await server.files.captured(own)
        except NotCaptured as error:
            return ToolSilence(str(error))
        return ToolAnswer(content, failed, spent, changes, blobs, sanitized)

    def _server(self, name: str) -> Server:
        if name not in self._servers:
            raise ToolServerUnavailable("the spec names no such server", attempted=_CALL, on=name)
        return self._servers[name]


def _refusal(why: str) -> ToolAnswer:
    content: list[Json] = [{"type": "text", "text": why}]
    return ToolAnswer(content, True, 0)


def _unavailable(server: Server, attempted: str, error: Unreachable) -> ToolServerUnavailable:
    return ToolServerUnavailable(error.why, attempted=attempted, on=server.target.name)
