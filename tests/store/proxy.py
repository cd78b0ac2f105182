"""A wire that can be counted, cut and delayed, between a client and PostgreSQL.

It understands just enough of the protocol: a batch of messages ends with Sync or is a simple Query,
and is one round trip. A rule applies to the next batches that contain a given text, so that a test
can lose exactly the answer of an append and leave renewals alone.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

BATCHED = b"PBDECFH"
"""Parse, Bind, Describe, Execute, Close, function call, Flush: the parts of a batch."""


@dataclass
class Rule:
    """What to do with the next ``times`` batches that contain ``text``."""

    action: str
    """lose-answer: executed, the answer never arrives. lose-request: never arrives at the server.
    delay: the client is cut off, the server gets it when ``Proxy.deliver`` is called."""
    text: bytes
    times: int = 1


@dataclass
class Proxy:
    """Listens on a unix socket in ``folder`` and speaks to the server of ``dsn``."""

    folder: Path
    dsn: str
    round_trips: int = 0
    batches: list[bytes] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    down: bool = False
    """While down, connections are accepted and closed at once."""

    def __post_init__(self) -> None:
        self._server = Path(unquote(self.dsn.partition("host=")[2])) / ".s.PGSQL.5432"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self.delayed: list[Callable[[], None]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def client_dsn(self) -> str:
        """The DSN through this wire."""
        return f"{self.dsn.partition('host=')[0]}host={quote(str(self.folder), safe='')}"

    def rule(self, action: str, text: bytes, times: int = 1) -> Rule:
        """Add a rule."""
        made = Rule(action, text, times)
        with self._lock:
            self.rules.append(made)
        return made

    def cut(self) -> None:
        """Close every connection there is."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.close()

    def deliver(self) -> None:
        """Let the server have what was delayed, and wait until it has answered."""
        delayed, self.delayed = self.delayed, []
        for send in delayed:
            send()

    def close(self) -> None:
        """End everything."""
        self._listener.close()
        self.cut()

    def forget(self) -> None:
        """Count from here."""
        with self._lock:
            self.round_trips = 0
            self.batches.clear()

    def judge(self, batch: bytes) -> Rule | None:
        """Count a batch, and the rule that applies to it."""
        with self._lock:
            self.round_trips += 1
            self.batches.append(batch)
            for rule in self.rules:
                if rule.times > 0 and rule.text in batch:
                    rule.times -= 1
                    return rule
        return None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.down:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._server))
            except OSError:
                client.close()
                server.close()
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.append(link)
            link.start()


class _Link:
    """One connection: two pumps."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._losing = threading.Event()
        self._keep_server = False

    def start(self) -> None:
        threading.Thread(target=self._up, daemon=True).start()
        threading.Thread(target=self._down, daemon=True).start()

    def close(self) -> None:
        _close(self._client)
        if not self._keep_server:
            _close(self._server)

    def _up(self) -> None:
        """Client to server, message by message."""
        with contextlib.suppress(OSError):
            startup = self._read_exactly(4)
            self._server.sendall(startup + self._read_exactly(struct.unpack("!I", startup)[0] - 4))
            batch = b""
            while True:
                head = self._read_exactly(5)
                message = head + self._read_exactly(struct.unpack("!I", head[1:])[0] - 4)
                if head[:1] in {b"S", b"Q"}:
                    if not self._forward(batch + message):
                        return
                    batch = b""
                elif head[:1] in {bytes([b]) for b in BATCHED}:
                    batch += message
                else:
                    self._server.sendall(message)
        self.close()

    def _forward(self, batch: bytes) -> bool:
        rule = self._proxy.judge(batch)
        if rule is None:
            self._server.sendall(batch)
            return True
        if rule.action == "lose-answer":
            self._losing.set()
            self._server.sendall(batch)
            return True
        if rule.action == "delay":
            self._keep_server = True
            self._losing.set()
            answered = threading.Event()
            self._answered = answered

            def send() -> None:
                self._server.sendall(batch)
                answered.wait(30)
                _close(self._server)

            self._proxy.delayed.append(send)
        self.close()
        return False

    def _down(self) -> None:
        """Server to client."""
        with contextlib.suppress(OSError):
            while data := self._server.recv(65536):
                if self._losing.is_set():
                    if self._keep_server:
                        self._answered.set()
                    else:
                        break
                else:
                    self._client.sendall(data)
        self.close()

    def _read_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._client.recv(size - len(data))
            if not part:
                raise OSError("closed")
            data += part
        return data


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        end.close()
