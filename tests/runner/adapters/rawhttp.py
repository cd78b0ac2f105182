"""An HTTP server that answers with exactly the bytes it is told to, however wrong they are."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawServer:
    """Answers requests in turn; the last answer repeats. ``seen`` has the requests so far."""

    answers: Sequence[Answer]
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    gone: int = 0
    """Connections that the client closed while an answer was being given."""

    serving: dict[asyncio.Task[Any], asyncio.StreamWriter] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving[task] = writer
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while (request := await _read(reader)) is not None:
                self.seen.append(request)
                answer = self.answers[min(len(self.seen), len(self.answers)) - 1]
                answering = asyncio.ensure_future(answer(request, writer))
                leaving = asyncio.ensure_future(_gone(reader, writer, answering))
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                hung_up = not answering.done() or answering.exception() is not None
                self.gone += hung_up
                answering.cancel()
                leaving.cancel()
                await asyncio.gather(answering, leaving, return_exceptions=True)
                if hung_up or writer.is_closing():
                    break
        writer.close()
        del self.serving[task]

    async def stop(self) -> None:
        for writer in self.serving.values():
            writer.transport.abort()
        await asyncio.gather(*self.serving, return_exceptions=True)


async def _gone(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answering: asyncio.Future[None]
) -> None:
    """Until the client has left; one that reset its connection leaves no end of file behind."""
    while not (reader.at_eof() or writer.is_closing() or answering.done()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, path, headers, body)


@asynccontextmanager
async def raw_server(*answers: Answer) -> AsyncIterator[RawServer]:
    raw = RawServer(answers)
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0, limit=1 << 26)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield raw
    finally:
        server.close()
        await raw.stop()
        await server.wait_closed()


def whole(status: int, body: bytes | str = b"", **headers: str) -> Answer:
    """A complete answer. Header names are given with underscores."""
    data = body.encode() if isinstance(body, str) else body
    fields = {"content-length": str(len(data))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode() + data)
        await writer.drain()

    return answer


def error(status: int, kind: str = "", message: str = "", code: str = "", **headers: str) -> Answer:
    """An error in the provider's format."""
    details = {"details": {"error_code": code}} if code else {}
    body = {"type": "error", "error": {"type": kind, "message": message, **details}}
    return whole(status, json.dumps(body), content_type="application/json", **headers)


def sse(*events: Any, end: str = "clean") -> Answer:
    """A stream of events (dictionaries, or raw bytes). ``end``: clean, reset, stall or pings."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        head = "content-type: text/event-stream\r\ntransfer-encoding: chunked"
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
        for event in events:
            await _chunk(writer, event if isinstance(event, bytes) else framed(event))
        if end == "clean":
            await _chunk(writer, b"")
        elif end == "reset":
            reset(writer)
        while end in ("stall", "pings"):
            if end == "pings":
                await _chunk(writer, framed({"type": "ping"}))
            await asyncio.sleep(0.01)

    return answer


def framed(event: dict[str, Any], name: str | None = None) -> bytes:
    """One server-sent event."""
    return f"event: {name or event['type']}\ndata: {json.dumps(event)}\n\n".encode()


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await writer.drain()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the peer sees a reset, not an end of body."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def dropped(seen: Seen, writer: asyncio.StreamWriter) -> None:
    """Read the request and reset the connection without an answer."""
    reset(writer)


async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
    """Read the request and never answer."""
    await asyncio.Event().wait()
