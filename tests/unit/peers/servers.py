"""Starting the test tool server and talking to it with the SDK's client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.waiting import until

TOOLSERVER = Path(__file__).parents[2] / "peers" / "toolserver.py"
KEY = "agentrun.dev/call-key"


@dataclass(frozen=True)
class Peer:
    """How to reach one test server, by either transport."""

    folder: Path
    options: tuple[str, ...] = ()
    port: int | None = None
    pid: int | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def effects(self) -> Path:
        return self.folder / "effects"

    def words(self) -> list[str]:
        return [str(TOOLSERVER), "--effects", str(self.effects), *self.options]

    @asynccontextmanager
    async def client(self, mode: Any = "auto", **headers: str) -> AsyncIterator[Client]:
        if self.port is None:
            stdio = StdioServerParameters(command=sys.executable, args=self.words())
            async with Client(stdio, mode=mode, read_timeout_seconds=20) as client:
                yield client
            return
        timeout = httpx2.Timeout(20)
        async with httpx2.AsyncClient(trust_env=False, timeout=timeout, headers=headers) as http:
            target = streamable_http_client(
                f"http://127.0.0.1:{self.port}/mcp", http_client=http, max_sse_event_size=32 << 20
            )
            async with Client(target, mode=mode, read_timeout_seconds=20) as client:
                yield client


@contextmanager
def http_peer(folder: Path, *options: str) -> Iterator[Peer]:
    """A test server on a port of its own."""
    ports = folder / "port"
    words = [*Peer(folder, options).words(), "--port-file", str(ports)]
    with subprocess.Popen([sys.executable, *words]) as process:
        try:
            port = int(until(lambda: ports.exists() and ports.read_text()))
            yield Peer(folder, options, port, process.pid)
        finally:
            process.kill()
