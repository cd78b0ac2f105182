"""What the peers' scripts share. Imports nothing of AgentRun: their interpreter has none of it.

A script reads its task from standard input (where the database is, the turns to play, how many of
them to have in the conversation already) and writes one JSON object. Beside each of its steps it
makes a bare INSERT of the bytes that the same step has at ours, so that its ratio is of the same run.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import psycopg


@dataclass(frozen=True)
class Task:
    """``turns`` are pairs: what the model says, what the tool answers. Of these, the last ``window``
    are measured and the others are there before."""

    dsn: str
    turns: list[tuple[str, str]]
    window: int
    body: bytes

    @property
    def before(self) -> list[tuple[str, str]]:
        """Turns that are in the conversation already."""
        return self.turns[: -self.window]

    @property
    def measured(self) -> list[tuple[str, str]]:
        """Turns whose steps are timed."""
        return self.turns[-self.window :]


def read_task() -> Task:
    """From standard input."""
    given = json.load(sys.stdin)
    turns = [(said, answered) for said, answered in given["turns"]]
    return Task(given["dsn"], turns, given["window"], bytes.fromhex(given["body"]))


class Meter:
    """Times of steps and of bare INSERTs, and the log that the steps wrote."""

    def __init__(self, task: Task) -> None:
        self._sql = psycopg.connect(task.dsn, autocommit=True, prepare_threshold=None)
        self._body = task.body
        self._count = 0
        self.steps: list[float] = []
        self.inserts: list[float] = []
        self.wal = 0
        self._sql.execute(
            "CREATE TABLE IF NOT EXISTS bench.peer_bare (id bigserial PRIMARY KEY, body bytea)"
        )
        self.insert()
        self._position = self._wal()
        self._at = time.perf_counter()

    def step(self) -> None:
        """A step has just ended: count it, insert beside it, and start the clock again."""
        self.steps.append(time.perf_counter() - self._at)
        self.wal += self._wal() - self._position
        self.inserts.append(self.insert())
        self._position = self._wal()
        self._at = time.perf_counter()

    def start(self) -> None:
        """What happened until now does not count."""
        self._position = self._wal()
        self._at = time.perf_counter()

    def insert(self) -> float:
        """One bare INSERT; its seconds."""
        start = time.perf_counter()
        self._sql.execute("INSERT INTO bench.peer_bare (body) VALUES (%b)", (self._body,))
        return time.perf_counter() - start

    def report(self, **versions: str) -> None:
        """The answer, to standard output."""
        p50, bare = statistics.median(self.steps), statistics.median(self.inserts)
        answer: dict[str, Any] = {
            "n": len(self.steps),
            "p50_ms": round(p50 * 1000, 3),
            "bare_p50_ms": round(bare * 1000, 3),
            "ratio": round(p50 / bare, 2),
            "wal_bytes": round(self.wal / len(self.steps)),
            "versions": versions,
        }
        print(json.dumps(answer))

    def _wal(self) -> int:
        row = self._sql.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        assert row is not None
        return int(row[0])
