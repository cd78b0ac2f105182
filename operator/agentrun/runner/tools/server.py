"""One tool server of the run: its connection, renewed when it died, and what it remembers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from agentrun.run.records import Json
from agentrun.runner.tools.exchange import Exchange
from agentrun.runner.tools.files import Recorded
from agentrun.runner.tools.port import Clock, Random, Sleep
from agentrun.runner.tools.preload import preload
from agentrun.runner.tools.targets import Kind, Target
from agentrun.runner.tools.verdict import Answered, Unreachable, Verdict

if TYPE_CHECKING:
    from agentrun.runner.tools.connection import Connection

T = TypeVar("T")
_FIRST = 0.05
_MOST = 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server that cannot be reached is tried again before the loop is told."""

    clock: Clock
    sleep: Sleep
    random: Random
    seconds: float


class Server:
    """See the module."""

    def __init__(self, target: Target, patience: Patience) -> None:
        self.target = target
        self.files = Recorded(self) if target.recorded else None
        self.seen_generation: str | None = None
        """What the workspace last called its process."""
        self._patience = patience
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._calling = asyncio.Lock()
        self._lives = 0
        self._missed = False

    def turn(self) -> AbstractAsyncContextManager[object]:
        """Calls of a workspace run one at a time: what each changed must be told apart."""
        return self._calling if self.target.kind is Kind.WORKSPACE else nullcontext()

    async def patiently(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """``work`` on a live connection; again, for a while, as long as nothing was executed.

        Raises Unreachable.
        """
        keep = self._patience
        end, wait = keep.clock() + keep.seconds, _FIRST
        while True:
            try:
                return await work(await self._connected())
            except Unreachable as error:
                self._missed = self._missed or error.down
                if error.lost:
                    await self._drop()
                pause = max(error.retry_after or 0.0, wait * (0.5 + keep.random() / 2))
                if not error.again or keep.clock() + pause > end:
                    raise
            wait = min(_MOST, wait * 2)
            await keep.sleep(pause)

    def generation(self) -> str | None:
        """See :class:`agentrun.runner.tools.port.ToolServers`."""
        connection, kind = self._connection, self.target.kind
        if kind is Kind.WORKSPACE:
            kept = self.target.persistence is not None and self.target.persistence.value != "None"
            return None if kept else self.seen_generation
        if kind in (Kind.CHILD, Kind.SIDECAR):
            return f"life {self._lives}" if self._lives else None
        if connection is not None and connection.session is not None:
            return hashlib.sha256(connection.session.encode()).hexdigest()[:16]
        return None

    def mark(self) -> object:
        """Another value once another process listens on the socket; nothing is asked."""
        try:
            status = self.target.socket.stat() if self.target.socket is not None else None
        except OSError:
            return object()
        return (status.st_ino, status.st_ctime_ns) if status is not None else None

    async def ask(self, tool: str, arguments: dict[str, Json]) -> dict[str, Json]:
        """An internal tool of the workspace; see :class:`agentrun.runner.tools.files.Speak`."""

        async def call(connection: Connection) -> Verdict:
            return await connection.call(tool, arguments, {}, Exchange(seconds=60.0))

        result = _good(await self.patiently(call))
        if result.get("isError") is True:
            raise Unreachable(f"{tool} failed: {_text(result)}", again=False)
        structured = result.get("structuredContent")
        return structured if isinstance(structured, dict) else {}

    async def read(self, uri: str) -> bytes:
        """The content of a workspace file."""

        async def call(connection: Connection) -> Verdict:
            return await connection.read(uri)

        result = _good(await self.patiently(call))
        try:
            return base64.b64decode(result["contents"][0]["blob"], validate=True)
        except (KeyError, IndexError, TypeError, ValueError):
            raise Unreachable("a file's content cannot be understood", again=False) from None

    async def close(self) -> None:
        async with self._connecting:
            await self._drop()

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None or not self._connection.alive:
                await self._drop()
                opened = await asyncio.shield(asyncio.wrap_future(preload()))
                self._connection = await opened.open(self.target)
                self._lives += 1
            elif self._missed:
                self._lives += 1  # it did not listen for a while: it is another process now
            self._missed = False
            return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _good(judged: Verdict) -> dict[str, Json]:
    if isinstance(judged, Answered):
        return judged.result
    why = getattr(judged, "why", "") or "it answered with an error"
    raise Unreachable(why, again=False)


def _text(result: dict[str, Json]) -> str:
    """The server's own words; the bundled server's speak of paths and limits, not of content."""
    try:
        return str(result["content"][0]["text"])[:200]
    except (KeyError, IndexError, TypeError):
        return "no reason given"
