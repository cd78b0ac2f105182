"""What is compared: the boundary commit, and a bare one-row INSERT of the same bytes.

Both in two forms. *Whole*: asked for on an event loop, executed by a thread with a connection of
its own, waited for on the loop. *Alone*: the statement by itself, in the thread that asks. Both
kinds of connection are synchronous, autocommit, unprepared, binary: what the store uses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString
from uuid import uuid4

import psycopg

from agentrun.runner.attempt import new_commit
from agentrun.store.runner_store import Hold, jobs
from agentrun.store.runner_store.appending import statement
from agentrun.store.runner_store.facade import PostgresRunnerStore
from agentrun.store.runner_store.hold import Answer
from agentrun.store.runner_store.ledger import Entry, Group
from bench.sample_run import Played

_INSERT: LiteralString = "INSERT INTO bench.bare (run_uid, seq, body) VALUES (%s, %s, %b)"


def connect(dsn: str) -> psycopg.Cursor:
    """A connection as the store's own thread makes it."""
    connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
    return connection.cursor(binary=True)


def wal_position(sql: psycopg.Connection | psycopg.Cursor) -> int:
    """Bytes of log ever written by the server."""
    row = sql.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
    assert row is not None
    return int(row[0])


class Bare:
    """A table of bytes by run and number: the least that a durable step can cost."""

    def __init__(self, dsn: str) -> None:
        self._cursor = connect(dsn)
        self._uid = str(uuid4())
        self._seq = 0
        self._thread = ThreadPoolExecutor(1)

    def insert(self, body: bytes) -> float:
        """The statement alone; its seconds."""
        self._seq += 1
        parameters = (self._uid, self._seq, body)
        start = time.perf_counter()
        self._cursor.execute(_INSERT, parameters)
        return time.perf_counter() - start

    def insert_of(self, played: Played) -> float:
        """The statement alone, with the bytes of this boundary."""
        return self.insert(played.commit.body)

    async def insert_whole(self, body: bytes) -> float:
        """From the event loop and back."""
        start = time.perf_counter()
        await asyncio.get_running_loop().run_in_executor(self._thread, self.insert, body)
        return time.perf_counter() - start

    def close(self) -> None:
        """Drop the connection and the thread."""
        self._thread.shutdown()
        self._cursor.connection.close()


class Direct:
    """A claimed run whose appends are the statement alone."""

    def __init__(self, dsn: str, hold: Hold) -> None:
        self._cursor = connect(dsn)
        self._hold = hold
        self._seq = jobs.claim(hold, self._execute).seq

    def append(self, *played: Played) -> float:
        """Make boundaries durable in one statement; its seconds."""
        entries = tuple(
            Entry(each.commit, each.sums, None, 0.0, lambda result: None) for each in played
        )
        sql, parameters = statement(self._hold, Group(uuid4(), self._seq, entries))
        start = time.perf_counter()
        rows = self._execute(sql, parameters)
        seconds = time.perf_counter() - start
        assert Answer(*rows[0]).ok
        self._seq += len(entries)
        return seconds

    def fill(self, played: Sequence[Played]) -> None:
        """Append what comes before the part that is measured."""
        for start in range(0, len(played), 64):
            self.append(*played[start : start + 64])

    def close(self) -> None:
        """Drop the connection."""
        self._cursor.connection.close()

    def _execute(
        self, sql: LiteralString, parameters: Sequence[Any] | Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        return self._cursor.execute(sql, parameters).fetchall()


async def append_whole(runner: PostgresRunnerStore, played: Played) -> tuple[float, float]:
    """A boundary as a runner makes it: seconds to encode it, and to have it durable."""
    start = time.perf_counter()
    commit, _ = new_commit(played.boundary)
    encoded = time.perf_counter()
    await runner.append(commit, played.sums)
    return encoded - start, time.perf_counter() - encoded
