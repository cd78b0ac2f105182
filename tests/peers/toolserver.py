"""An MCP tool server for tests that counts what it did.

Every effect is one JSON line in ``--effects FILE`` and every request one in ``FILE.requests``,
both written before the answer, so that a test can tell "asked twice, done once" from "done twice"
after any kill. The files outlive the process: ``charge`` takes its idempotency from them, and
``counts`` reads them.

Run as ``python toolserver.py [--port N --port-file FILE] --effects FILE``; stdio without a port.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PREFIX = "agentrun.dev/"
_STEP = 0.02
_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


@dataclass(frozen=True)
class Count:
    """How often one call key was asked for, and how often something was done for it."""

    requests: int
    effects: int


def counts(effects: Path) -> dict[str, Count]:
    """Requests and effects by call key; calls without a key are under ``""``."""
    asked, done = lines(requests_file(effects)), lines(effects)
    keys = {str(line["key"] or "") for line in asked + done}
    return {
        key: Count(
            requests=sum((line["key"] or "") == key for line in asked),
            effects=sum((line["key"] or "") == key for line in done),
        )
        for key in keys
    }


def lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a ledger file; empty if there is none yet."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def requests_file(effects: Path) -> Path:
    return effects.with_name(effects.name + ".requests")


@dataclass(frozen=True)
class Call:
    """One tools/call as it arrived."""

    tool: str
    args: dict[str, Any]
    meta: dict[str, Any]
    header: str | None

    @property
    def key(self) -> str | None:
        return self.meta.get("call-key") or self.header

    def line(self) -> dict[str, Any]:
        attempt = self.meta.get("attempt")
        return {
            "key": self.key,
            "tool": self.tool,
            "args": self.args,
            "attempt": attempt,
            "pid": os.getpid(),
        }


class Ledger:
    """The two files. A lock on the effects file makes look-then-write one step for all processes."""

    def __init__(self, effects: Path) -> None:
        self._effects = effects
        self._read = 0
        self._by_key: dict[str | None, int] = {}

    def request(self, call: Call) -> None:
        extra = {"header": call.header, "meta": call.meta, "time": time.time()}
        _append(requests_file(self._effects), {**call.line(), **extra})

    def effect(self, call: Call, *, once: bool) -> int:
        """Write an effect and return its number for the key; ``once``: only if it has none."""
        with self._locked():
            self._catch_up()
            done = self._by_key.get(call.key, 0)
            if once and call.key and done:
                return done
            _append(self._effects, {**call.line(), "n": done + 1})
            return done + 1

    def find(self, key: str | None) -> int:
        with self._locked():
            self._catch_up()
            return self._by_key.get(key, 0)

    def _catch_up(self) -> None:
        with self._effects.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        self._read += len(new)
        for line in new.splitlines():
            key = json.loads(line)["key"]
            self._by_key[key] = self._by_key.get(key, 0) + 1

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fd = os.open(self._effects, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _append(path: Path, line: dict[str, Any]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, json.dumps(line).encode() + b"\n")
    finally:
        os.close(fd)


@dataclass(frozen=True)
class Answer:
    """What a tool answers, before it becomes the SDK's types."""

    text: str | None = None
    images: int = 0
    structured: dict[str, Any] | None = None
    is_error: bool = False


@dataclass(frozen=True)
class Tools:
    """The tools. Each records its effect at the moment at which a real one would have it."""

    ledger: Ledger
    effect_at: str
    block_file: Path | None
    gates: Path | None = None

    async def echo(self, call: Call) -> Answer:
        return self._done(call, Answer(str(call.args.get("text", ""))))

    async def add(self, call: Call) -> Answer:
        return self._done(call, Answer(str(call.args.get("a", 0) + call.args.get("b", 0))))

    async def slow(self, call: Call) -> Answer:
        if self.effect_at == "start":
            self.ledger.effect(call, once=False)
        end = time.monotonic() + float(call.args.get("seconds", 1))
        while (left := end - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(_STEP, left))
        if self.effect_at == "end":
            self.ledger.effect(call, once=False)
        await self._blocked()
        return Answer(str(call.args.get("text", "")))

    async def fail(self, call: Call) -> Answer:
        return Answer(str(call.args.get("message", "failed")), is_error=True)

    async def big(self, call: Call) -> Answer:
        return self._done(call, Answer("x" * int(call.args["bytes"])))

    async def images(self, call: Call) -> Answer:
        return self._done(call, Answer(images=int(call.args["count"])))

    async def empty(self, call: Call) -> Answer:
        return self._done(call, Answer())

    async def nul(self, call: Call) -> Answer:
        return self._done(call, Answer("before\x00after"))

    async def surrogate(self, call: Call) -> Answer:
        return self._done(call, Answer("before\ud800after"))

    async def structured(self, call: Call) -> Answer:
        text = "21.5 C" if call.args.get("text", True) else None
        return self._done(call, Answer(text, structured={"celsius": 21.5, "tags": ["a", "b"]}))

    async def charge(self, call: Call) -> Answer:
        self.ledger.effect(call, once=True)
        await self._blocked()
        return Answer(f"charged {call.args.get('amount')}")

    async def find_charge(self, call: Call) -> Answer:
        """For ``onUnknown: Verify``: was there an effect for the key named in the arguments?"""
        named = [v for v in _strings(call.args) if v.startswith("ar-")]
        found = self.ledger.find(named[0] if named else call.key)
        return Answer(
            json.dumps({"found": found > 0, "effects": found}), structured={"found": found > 0}
        )

    async def gate(self, call: Call) -> Answer:
        """Answers once ``--gates DIR`` holds a file named after the run's UID."""
        assert self.gates is not None
        while not (self.gates / str(call.meta.get("run-uid"))).exists():  # noqa: ASYNC110
            await asyncio.sleep(_STEP)
        return self._done(call, Answer("open"))

    async def hang(self, call: Call) -> Answer:
        del call
        await asyncio.Event().wait()
        raise AssertionError

    async def die(self, call: Call) -> Answer:
        if call.args.get("effect"):
            self.ledger.effect(call, once=False)
        os._exit(3)

    def _done(self, call: Call, answer: Answer) -> Answer:
        self.ledger.effect(call, once=False)
        return answer

    async def _blocked(self) -> None:
        """Between effect and answer: here a test kills the runner."""
        while self.block_file is not None and self.block_file.exists():  # noqa: ASYNC110
            await asyncio.sleep(_STEP)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


SCHEMAS: dict[str, dict[str, Any]] = {
    "echo": {"text": {"type": "string"}},
    "add": {"a": {"type": "number"}, "b": {"type": "number"}},
    "slow": {"seconds": {"type": "number"}, "text": {"type": "string"}},
    "fail": {"message": {"type": "string"}},
    "big": {"bytes": {"type": "integer"}},
    "images": {"count": {"type": "integer"}},
    "empty": {},
    "nul": {},
    "surrogate": {},
    "structured": {"text": {"type": "boolean"}},
    "charge": {"amount": {"type": "number"}},
    "find_charge": {},
    "gate": {},
    "hang": {},
    "die": {"effect": {"type": "boolean"}},
}
REQUIRED = {"echo": ["text"], "add": ["a", "b"], "big": ["bytes"], "images": ["count"]}
ANNOTATIONS = {
    "charge": {"destructive_hint": True, "idempotent_hint": False, "read_only_hint": False},
    "find_charge": {"read_only_hint": True},
}


@dataclass
class Running:
    """Calls that go on although their client has gone (``--detach``)."""

    tasks: set[asyncio.Task[Answer]] = field(default_factory=set)

    async def shielded(self, work: Awaitable[Answer]) -> Answer:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return await asyncio.shield(task)

    async def drain(self) -> None:
        await asyncio.gather(*self.tasks, return_exceptions=True)


def make_server(tools: Tools, names: list[str], running: Running | None) -> Any:
    """The SDK's low-level server over ``tools``, offering ``names``."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    def describe(name: str) -> types.Tool:
        schema = {"type": "object", "properties": SCHEMAS[name], "required": REQUIRED.get(name, [])}
        hints = ANNOTATIONS.get(name)
        return types.Tool(
            name=name,
            description=f"test tool {name}",
            input_schema=schema,
            annotations=types.ToolAnnotations(**hints) if hints else None,
        )

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[describe(name) for name in names])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in names:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        ours = {
            k.removeprefix(_PREFIX): v
            for k, v in (params.meta or {}).items()
            if k.startswith(_PREFIX)
        }
        header = ctx.request.headers.get("idempotency-key") if ctx.request is not None else None
        call = Call(params.name, params.arguments or {}, ours, header)
        tools.ledger.request(call)
        work: Callable[[Call], Awaitable[Answer]] = getattr(tools, params.name)
        answer = await (running.shielded(work(call)) if running else work(call))
        content: list[types.ContentBlock] = []
        if answer.text is not None:
            content.append(types.TextContent(text=answer.text))
        content += [types.ImageContent(data=_PNG, mime_type="image/png")] * answer.images
        return types.CallToolResult(
            content=content, structured_content=answer.structured, is_error=answer.is_error
        )

    return Server("toolserver", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio(server: Any, running: Running | None) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
    if running:
        await running.drain()


async def serve_http(server: Any, bound: socket.socket) -> None:
    import uvicorn

    app = server.streamable_http_app(host="", max_request_body_size=64 << 20)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
    await server._serve([bound])  # without its signal handlers: SIGTERM ends this at once


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    parser = argparse.ArgumentParser()
    parser.add_argument("--effects", type=Path, required=True)
    parser.add_argument("--effect-at", choices=["start", "end"], default="end")
    parser.add_argument("--block-file", type=Path)
    parser.add_argument("--gates", type=Path, help="folder of gates that are open")
    parser.add_argument("--detach", action="store_true", help="finish calls whose client has gone")
    parser.add_argument("--without", action="append", default=[], help="do not offer this tool")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, help="serve streamable HTTP; 0 picks a port")
    parser.add_argument("--port-file", type=Path)
    args = parser.parse_args()
    import logging

    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    tools = Tools(Ledger(args.effects), args.effect_at, args.block_file, args.gates)
    names = [name for name in SCHEMAS if name not in args.without]
    running = Running() if args.detach else None
    if args.port is None and args.port_file is None:
        asyncio.run(serve_stdio(make_server(tools, names, running), running))
        return
    bound = socket.create_server((args.host, args.port or 0), backlog=256)
    server = make_server(tools, names, running)
    if args.port_file is not None:
        draft = args.port_file.with_name(args.port_file.name + ".tmp")
        draft.write_text(f"{bound.getsockname()[1]}\n")
        draft.replace(args.port_file)
    asyncio.run(serve_http(server, bound))


if __name__ == "__main__":
    main()
