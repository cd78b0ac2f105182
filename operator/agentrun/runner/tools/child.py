"""A tool server that is a child process, spoken to over its stdin and stdout.

In place of the SDK's own transport, for two reasons: the whole process group must die with it (a
server that ends by itself leaves its children behind), and an answer that the SDK cannot parse would
leave the call waiting for its timeout.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, jsonrpc_message_adapter

from agentrun.run.surrogates import mend_json
from agentrun.runner.tools.tap import MendedMessage, Streams
from agentrun.runner.tools.targets import Target

_LINE_MAX = 64 << 20
_GRACE = 2.0
"""Seconds between closing stdin and SIGTERM, and between SIGTERM and SIGKILL."""
_STEP = 0.01
_GARBLED = "Failed to parse the answer"
_HELD = "Failed to parse: not sent"


@asynccontextmanager
async def child_transport(
    target: Target, leaving: Callable[[JSONRPCMessage], bool]
) -> AsyncIterator[Streams]:
    """Start the server and speak with it; at the end its process group is dead.

    ``leaving`` is asked right before a message is written, when the pipe is free.
    Raises OSError or ValueError if it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *target.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=get_default_environment() | dict(target.env),
        start_new_session=True,
        limit=_LINE_MAX,
    )
    into, read = anyio.create_memory_object_stream[Any](0)
    write, outof = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_receive, process, into)
            tasks.start_soon(_transmit, process, outof, leaving, into)
            try:
                yield read, write
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        for stream in (into, read, write, outof):
            stream.close()


async def _receive(process: asyncio.subprocess.Process, into: Any) -> None:
    """One message per line. The end of stdout is the end of the connection."""
    stdout = process.stdout
    assert stdout is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with into:
            while (line := await _line(stdout)) is not None:
                message = parse(line)
                if message is not None:
                    await into.send(message)


async def _line(stdout: asyncio.StreamReader) -> bytes | None:
    """The next line; None at the end, for half a line at the end, and for one that never ends."""
    try:
        return await stdout.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return None


async def _transmit(
    process: asyncio.subprocess.Process,
    outof: Any,
    leaving: Callable[[JSONRPCMessage], bool],
    back: Any,
) -> None:
    """One line per message. A request that may not leave is answered here, or it would be waited
    for."""
    stdin = process.stdin
    assert stdin is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with outof:
            async for item in outof:
                if not leaving(item.message):
                    await back.send(_error(item.message.id, _HELD))
                    continue
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()


def parse(line: bytes) -> SessionMessage | None:
    """The message on a line; None for stray output.

    An answer that cannot be decoded becomes an error for the request it names, so that whoever waits
    learns at once that nothing will come.
    """
    mended, count = mend_json(line)
    try:
        message = jsonrpc_message_adapter.validate_json(mended, by_name=False)
    except ValueError:
        return _garbled(mended)
    return MendedMessage(message, sanitized=count) if count else SessionMessage(message)


def _garbled(line: bytes) -> SessionMessage | None:
    request: Any = None
    with suppress(ValueError, RecursionError):
        whole = json.loads(line.decode("utf-8", "replace"))
        request = whole.get("id") if isinstance(whole, dict) else None
    if request is None and (found := re.search(rb'"id"\s*:\s*(\d{1,18})\b', line[:200])):
        request = int(found[1])
    if not isinstance(request, int | str):
        return None
    return _error(request, _GARBLED)


def _error(request: Any, message: str) -> SessionMessage:
    error = ErrorData(code=PARSE_ERROR, message=message)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=error))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask, tell, kill; and in any case kill what is left of the group."""
    if process.stdin is not None:
        process.stdin.close()
    if not await _exited(process):
        _kill(process, signal.SIGTERM)
        await _exited(process)
    _kill(process, signal.SIGKILL)
    await _exited(process)


async def _exited(process: asyncio.subprocess.Process) -> bool:
    """Whether it ends in time. ``wait()`` would also wait for everyone who inherited its pipes."""
    end = anyio.current_time() + _GRACE
    while process.returncode is None and anyio.current_time() < end:  # noqa: ASYNC110
        await anyio.sleep(_STEP)
    return process.returncode is not None


def _kill(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
