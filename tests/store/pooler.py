"""A pooler in transaction mode: every batch of a client may meet another server connection."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from pathlib import Path
from urllib.parse import quote, unquote


class Pooler:
    """Hands the batches of all clients to ``size`` server connections in turn."""

    def __init__(self, folder: Path, dsn: str, size: int = 3) -> None:
        self._server = Path(unquote(dsn.partition("host=")[2])) / ".s.PGSQL.5432"
        self.client_dsn = f"{dsn.partition('host=')[0]}host={quote(str(folder), safe='')}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen(16)
        self._size = size
        self._turn = 0
        self._lock = threading.Lock()
        self._servers: list[socket.socket] = []
        self._greeting = b""
        self.served = [0] * size
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End everything."""
        self._listener.close()
        for server in self._servers:
            server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            head = _exactly(client, 4)
            startup = head + _exactly(client, struct.unpack("!I", head)[0] - 4)
            with self._lock:
                while len(self._servers) < self._size:
                    server = socket.socket(socket.AF_UNIX)
                    server.connect(str(self._server))
                    server.sendall(startup)
                    self._greeting = _until_ready(server)
                    self._servers.append(server)
            client.sendall(self._greeting)
            batch = b""
            while True:
                head = _exactly(client, 5)
                batch += head + _exactly(client, struct.unpack("!I", head[1:])[0] - 4)
                if head[:1] in {b"S", b"Q"}:
                    client.sendall(self._forward(batch))
                    batch = b""

    def _forward(self, batch: bytes) -> bytes:
        with self._lock:
            self._turn = (self._turn + 1) % self._size
            self.served[self._turn] += 1
            server = self._servers[self._turn]
            server.sendall(batch)
            return _until_ready(server)


def _exactly(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = end.recv(size - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return data


def _until_ready(end: socket.socket) -> bytes:
    """Messages up to ReadyForQuery, which must say that no transaction is open."""
    answer = b""
    while True:
        head = _exactly(end, 5)
        body = _exactly(end, struct.unpack("!I", head[1:])[0] - 4)
        answer += head + body
        if head[:1] == b"Z":
            assert body == b"I", "a transaction was left open"
            return answer
