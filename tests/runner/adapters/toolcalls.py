"""Calls as the loop makes them, tool servers to send them to, and MCP servers that answer raw bytes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.runner.adapters.rawhttp import Answer, RawServer, Seen, raw_server, whole

from agentrun.run.identity import CallId
from agentrun.run.values import OutgoingCall
from agentrun.runner.tools import Kind, Target, ToolServers, open_targets

KEY = "ar-" + "0" * 64
MODERN = "2026-07-28"
LEGACY = "2025-11-25"


def always() -> bool:
    return True


def outgoing(
    server: str = "ops",
    tool: str = "echo",
    arguments: Any = None,
    *,
    timeout_ms: int = 20_000,
    key: str = KEY,
    model_id: str = "toolu_1",
) -> OutgoingCall:
    return OutgoingCall(
        call=CallId("main", 1, 1, 0),
        key=key,
        model_id=model_id,
        server=server,
        tool=tool,
        arguments={} if arguments is None else arguments,
        task="main",
        agent="sre",
        attempt=2,
        run_uid="uid-1",
        run_id="incident-42",
        timeout_ms=timeout_ms,
    )


@asynccontextmanager
async def tool_servers(
    *targets: Target, patience: float = 0.0, **more: Any
) -> AsyncIterator[ToolServers]:
    """A set of servers that is closed again. Without patience it tells at once that nothing was sent."""
    opened = open_targets(targets, patience=patience, **more)
    try:
        yield opened
    finally:
        await opened.close()


async def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Poll ``condition`` until it holds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.01)
    return value


def remote(url: str, name: str = "ops", **more: Any) -> Target:
    return Target(name, Kind.REMOTE, f"{url}/mcp", **more)


def rpc(seen: Seen, **fields: Any) -> dict[str, Any]:
    """A JSON-RPC message that answers the request."""
    return {"jsonrpc": "2.0", "id": seen.json().get("id"), **fields}


def result(value: Any = None, **more: Any) -> Answer:
    """A plain JSON answer with this result of a call."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        body = {"content": [], "resultType": "complete"} if value is None else value
        await as_json(rpc(seen, result=body), **more)(seen, writer)

    return answer


def declined(code: int, message: str, status: int = 200, **more: Any) -> Answer:
    """A JSON-RPC error as the answer."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        error = {"code": code, "message": message, **more}
        await as_json(rpc(seen, error=error), status=status)(seen, writer)

    return answer


def as_json(body: Any, status: int = 200, **headers: str) -> Answer:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return whole(status, text, content_type="application/json", **headers)


@asynccontextmanager
async def mcp_server(
    *calls: Answer, era: str = MODERN, tools: list[Any] | None = None, **greeting: Any
) -> AsyncIterator[RawServer]:
    """A server that shakes hands properly and answers tools/call with ``calls``, in turn."""
    called = 0

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        nonlocal called
        if seen.method != "POST":
            await whole(405 if seen.method == "GET" else 200)(seen, writer)
            return
        method = seen.json()["method"]
        if method == "tools/call":
            called += 1
            await calls[min(called, len(calls)) - 1](seen, writer)
            return
        offered = [{"name": "echo", "inputSchema": {"type": "object"}}] if tools is None else tools
        caching = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        greetings: dict[str, Any] = {
            "initialize": {
                "protocolVersion": LEGACY,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            },
            "tools/list": {"tools": offered, **caching},
        }
        if era == MODERN:
            greetings["server/discover"] = {
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {}},
                **caching,
            }
        if method in greetings:
            await as_json(rpc(seen, result=greetings[method]), **greeting)(seen, writer)
        elif "id" in seen.json():
            await declined(-32601, "Method not found")(seen, writer)
        else:
            await whole(202)(seen, writer)

    async with raw_server(answer) as server:
        yield server


def calls_of(server: RawServer) -> list[Seen]:
    """The tools/call requests that arrived."""
    posts = [seen for seen in server.seen if seen.method == "POST"]
    return [seen for seen in posts if seen.json().get("method") == "tools/call"]
