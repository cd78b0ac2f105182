"""Worlds on servers of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentrun.store.embedded import EmbeddedPostgres

from .world import World


@asynccontextmanager
async def worlds(postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    """An operator and its runs on this server."""
    made = await World.on(postgres)
    try:
        yield made
    finally:
        await made.close()
