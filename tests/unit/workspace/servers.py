"""Starting a real workspace server and talking to it with the SDK's client."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import BlobResourceContents, CallToolResult, TextContent
from tests.waiting import until

from agentrun.workspace import protocol


@dataclass(frozen=True)
class Folder:
    """A folder with a workspace root in it and a place for the socket."""

    path: Path
    limit: int = 1 << 20

    @property
    def root(self) -> Path:
        return self.path / "root"

    @property
    def socket(self) -> Path:
        return self.path / "s" / "ws"

    def words(self, *where: str) -> list[str]:
        self.root.mkdir(exist_ok=True)
        limits = ["--size-limit", str(self.limit)]
        return ["-m", "agentrun.workspace", "--root", str(self.root), *limits, *where]

    @contextmanager
    def process(self, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """A server on the socket; killed at the end."""
        words = [sys.executable, *self.words("--socket", str(self.socket), *more)]
        with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
            try:
                until(self._listening)
                yield process
            finally:
                process.kill()

    def _listening(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def http(self) -> httpx2.AsyncClient:
        transport = httpx2.AsyncHTTPTransport(uds=str(self.socket))
        return httpx2.AsyncClient(transport=transport, timeout=30, trust_env=False)

    @asynccontextmanager
    async def client(self, mode: Any = "auto") -> AsyncIterator[Talk]:
        """A client of the server that is running on the socket."""
        async with self.http() as http:
            target = streamable_http_client("http://localhost/mcp", http_client=http)
            async with Client(target, mode=mode, read_timeout_seconds=30) as client:
                yield Talk(client)

    @asynccontextmanager
    async def stdio(self) -> AsyncIterator[Talk]:
        """A server of one's own, by stdin and stdout."""
        target = StdioServerParameters(command=sys.executable, args=self.words("--stdio"))
        async with Client(target, read_timeout_seconds=30) as client:
            yield Talk(client)

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Talk]:
        """A server on the socket and a client of it."""
        with self.process():
            async with self.client() as talk:
                yield talk


@dataclass(frozen=True)
class Talk:
    """The calls that tests make."""

    client: Client

    async def call(self, tool: str, /, *, meta: dict[str, Any] | None = None, **args: Any) -> Said:
        given: Any = meta
        return Said(await self.client.call_tool(tool, args, meta=given))

    async def state(self) -> dict[str, Any]:
        content = (await self.call(protocol.STATE)).result.structured_content
        assert isinstance(content, dict)
        return content

    async def fetch(self, uri: str) -> bytes:
        (content,) = (await self.client.read_resource(uri)).contents
        assert isinstance(content, BlobResourceContents)
        return base64.b64decode(content.blob)

    async def restore_file(
        self, path: str, data: bytes, mode: int = 0o644, offset: int = 0
    ) -> Said:
        encoded = base64.b64encode(data).decode()
        piece: dict[str, Any] = {"path": path, "mode": mode, "contentBase64": encoded}
        return await self.call(protocol.RESTORE_FILE, **piece, offset=offset)


@dataclass(frozen=True)
class Said:
    """A result, read conveniently."""

    result: CallToolResult

    @property
    def text(self) -> str:
        block = self.result.content[0]
        assert isinstance(block, TextContent)
        return block.text

    @property
    def notes(self) -> list[str]:
        return [b.text for b in self.result.content[1:] if isinstance(b, TextContent)]

    @property
    def failed(self) -> bool:
        return self.result.is_error

    @property
    def meta(self) -> dict[str, Any]:
        return dict(self.result.meta or {})

    @property
    def changed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.meta[protocol.META_CHANGED]
        return found

    @property
    def not_sent(self) -> bool:
        return self.meta.get(protocol.META_NOT_SENT) is True


async def post(http: httpx2.AsyncClient, tool: str, args: dict[str, Any]) -> Any:
    """A tools/call without the SDK's client, which cannot send everything that can arrive."""
    version = "2026-07-28"
    client = {"name": "t", "version": "1"}
    prefix = "io.modelcontextprotocol/"
    meta = {"protocolVersion": version, "clientInfo": client, "clientCapabilities": {}}
    params = {
        "name": tool,
        "arguments": args,
        "_meta": {f"{prefix}{key}": value for key, value in meta.items()},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": version,
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    return (
        await http.post("http://localhost/mcp", content=json.dumps(body), headers=headers)
    ).json()
