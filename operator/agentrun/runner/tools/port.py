"""What the loop sees of the tool servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentrun.run.records import Json
from agentrun.run.values import OutgoingCall, ToolOutcome

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]
Random = Callable[[], float]

Files = Mapping[str, tuple[str, int, int]]
"""Path -> (sha256, size, mode), as ``State.files`` holds them."""

Fetch = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]
"""Contents by sha256, from the store."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """One tool as its server described it."""

    server: str
    name: str
    description: str
    input_schema: Json
    annotations: Json


class ToolServers(Protocol):
    """All tool servers of a run. Connections are made when first needed and again when they died."""

    async def offered(self, servers: Sequence[str]) -> tuple[OfferedTool, ...]:
        """What these servers offer now, in the order of ``servers`` and of each server's list.

        Raises ToolServerUnavailable when one of them cannot be asked.
        """
        ...

    async def call(
        self, call: OutgoingCall, *, may_send: Callable[[], bool], not_after: float | None = None
    ) -> ToolOutcome:
        """Send a call once. ``not_after``: wall-clock seconds, enforced by the bundled server.

        A ToolAnswer is what the server itself said; everything else that can have reached it is a
        ToolSilence. Raises ToolServerUnavailable only when provably nothing was executed, NotSent
        when ``may_send`` forbade it.
        """
        ...

    async def restore_files(self, server: str, files: Files, fetch: Fetch) -> None:
        """Make a workspace hold exactly ``files``, before its first call; a no-op when it does.

        They are remembered: a server that loses its state within the attempt is restored again.
        """
        ...

    async def generation(self, server: str) -> str | None:
        """A name for the server's present state; another name means that it lost what it had.

        None where no such thing can be known (a remote server without a session).
        """
        ...

    async def close(self) -> None:
        """End all connections and kill the process groups of children."""
        ...
