"""One connection of one thread, on which no statement outlives its deadline.

The deadline is watched by a second thread, because a blocked thread cannot watch itself. Past it,
the statement is cancelled (which does nothing if the server is frozen), and shortly after the
socket is closed, which always ends it. The watcher looks at intervals instead of being woken for
each statement, so it costs a boundary nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString

import psycopg

_CANCEL_SECONDS = 1.0
_LOOKS = 6
"""How many times per deadline the watcher looks."""


class Wire:
    """Used by one thread, except ``hurry``."""

    def __init__(self, dsn: str, application_name: str, clock: Callable[[], float]) -> None:
        self._dsn = dsn
        self._name = application_name
        self._clock = clock
        self._connection: psycopg.Connection | None = None
        self._cursor: psycopg.Cursor | None = None
        self._armed: tuple[psycopg.Connection, float] | None = None
        self._wake = threading.Event()
        self._closed = False
        self._watcher: threading.Thread | None = None
        self._interval = 1.0
        self.opened = 0
        """How many connections were made."""

    @property
    def connection(self) -> psycopg.Connection | None:
        """The connection, if there is one."""
        return self._connection

    def execute(
        self,
        statement: LiteralString,
        parameters: Sequence[Any] | Mapping[str, Any],
        seconds: float,
    ) -> list[tuple[Any, ...]]:
        """Run one statement within ``seconds``, connecting first if need be.

        Raises whatever psycopg raises; a broken connection is dropped.
        """
        connection = self._connection or self._connect(seconds)
        cursor = self._cursor or connection.cursor(binary=True)
        self._cursor = cursor
        self._interval = seconds / _LOOKS
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="store-deadline", daemon=True)
            self._watcher.start()
        self._armed = (connection, self._clock() + seconds)
        try:
            return cursor.execute(statement, parameters).fetchall()
        except psycopg.Error:
            if connection.broken or connection.closed:
                self.disconnect()
            raise
        finally:
            self._armed = None

    def _connect(self, seconds: float) -> psycopg.Connection:
        self._connection = psycopg.connect(
            self._dsn,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=max(2, round(seconds)),
            application_name=self._name,
            target_session_attrs="read-write",
            keepalives_idle=5,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=10_000,
        )
        self.opened += 1
        return self._connection

    def disconnect(self) -> None:
        """Drop the connection; the next statement makes another."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            connection.close()

    def hurry(self, seconds: float) -> None:
        """From any thread: shorten the deadline of what is running now."""
        armed = self._armed
        if armed is not None:
            self._interval = min(self._interval, seconds / 2)
            self._armed = (armed[0], min(armed[1], self._clock() + seconds))
            self._wake.set()

    def close(self) -> None:
        """Disconnect and end the watcher."""
        self._closed = True
        self._wake.set()
        self.disconnect()
        if self._watcher is not None:
            self._watcher.join()

    def _watch(self) -> None:
        while not self._closed:
            self._wake.wait(self._interval)
            self._wake.clear()
            armed = self._armed
            if armed is not None and self._clock() >= armed[1]:
                self._cut(armed)

    def _cut(self, armed: tuple[psycopg.Connection, float]) -> None:
        connection = armed[0]
        # A frozen or vanished server ignores this: closing the socket is what is left.
        with contextlib.suppress(psycopg.Error):
            connection.cancel_safe(timeout=_CANCEL_SECONDS)
        self._wake.wait(min(0.25, self._interval))
        if self._armed is armed:
            connection.close()
