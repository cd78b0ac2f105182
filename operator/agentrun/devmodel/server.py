"""The HTTP side: one thread per connection, standard library only, so that it starts at once."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentrun.devmodel.choose import Chooser
from agentrun.devmodel.handler import Handler
from agentrun.devmodel.log import RequestLog
from agentrun.devmodel.script import Script


class ModelServer(ThreadingHTTPServer):
    """A bound server; ``port`` is where it listens. Start it with ``serve_forever``."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, script: Script, host: str, port: int, log: Path | None) -> None:
        self.chooser = Chooser(script)
        self.log = RequestLog(log)
        self.stopping = threading.Event()
        self._open: set[Any] = set()
        super().__init__((host, port), Handler)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """End every connection and delay too: a stopped server must not go on answering."""
        self.stopping.set()
        super().server_close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.log.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is normal here: runners are killed on purpose."""


@contextmanager
def open_server(
    script: Script, *, host: str = "127.0.0.1", port: int = 0, log: Path | None = None
) -> Iterator[ModelServer]:
    """A running server inside this process, stopped at the end of the block."""
    server = ModelServer(script, host, port, log)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serve(
    script: Script,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    log: Path | None = None,
    ready: Callable[[int], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. ``ready`` is told the bound port, once connections queue up.

    The signals are handled here because a process that is PID 1 of a container ignores a SIGTERM
    nobody handles. Must be called from the main thread.
    """
    server = ModelServer(script, host, port, log)

    def stop(signum: int, frame: object) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        if ready is not None:
            ready(server.port)
        server.serve_forever(0.1)
    finally:
        server.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)
