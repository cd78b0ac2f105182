"""Listening on a unix socket that its folder protects, or speaking on stdin and stdout."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrun.errors import UsageError
from agentrun.workspace.state import Workspace

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

_BODY_FLOOR = 64 << 20
_ATTEMPTED = "listen on the workspace socket"


def listen(path: Path) -> socket.socket:
    """A listening socket in a folder that nobody else can enter; made 0700 if it is missing.

    A folder shared by a group is fine, one open to everybody is not: whoever can connect can read
    and write all files past every gate. Raises ``UsageError``.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_mode & 0o007:
        raise UsageError(
            "the folder of the socket is open to everybody",
            attempted=_ATTEMPTED,
            on=str(path.parent),
            advice="Make its mode 0700, or 0770 for a shared group",
        )
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise UsageError("something else is there", attempted=_ATTEMPTED, on=str(path))
        path.unlink()
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(path))
        path.chmod(0o660)
        bound.listen(64)
    except OSError as error:
        bound.close()
        raise UsageError(str(error), attempted=_ATTEMPTED, on=str(path)) from None
    return bound


async def serve_socket(workspace: Workspace, bound: socket.socket) -> None:
    """Streamable HTTP on ``/mcp``; answers are plain JSON, which no client limits in size."""
    server = _imported(workspace)
    import uvicorn

    class Unhandled(uvicorn.Server):
        """Without signal handlers of its own: SIGTERM must end this at once, not drain it."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    app = server.streamable_http_app(
        host="",  # no DNS rebinding through a unix socket
        json_response=True,
        max_request_body_size=max(_BODY_FLOOR, 2 * workspace.tree.limit),
    )
    config = uvicorn.Config(app, log_level="critical", access_log=False, lifespan="on")
    await Unhandled(config).serve([bound])


async def serve_stdio(workspace: Workspace) -> None:
    """For tests and for clients that start the server themselves."""
    server = _imported(workspace)
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _imported(workspace: Workspace) -> Server[Any]:
    gc.disable()  # one tenth of the import time
    from agentrun.workspace.server import make_server

    gc.enable()
    gc.freeze()
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    return make_server(workspace)


def end_at_once() -> None:
    """What SIGTERM does: files are moved into place whole, so there is nothing to finish."""
    os._exit(0)
