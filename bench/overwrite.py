"""A peer written by hand: the whole state in one row, overwritten at every boundary.

What most frameworks do under another name. It gets our codec, so its bytes are compressed as well;
even so, each boundary costs as much as the conversation is long.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from agentrun.run import codec
from agentrun.run.fold import OPERATOR, RUNNER, fold
from agentrun.run.state import State
from bench.postgres import Ground
from bench.sample_run import Played, first_records, of_turns
from bench.stats import Json, ms, ratio
from bench.writers import Bare, connect, wal_position

_TABLE = """
CREATE TABLE IF NOT EXISTS bench.state (run_uid text PRIMARY KEY, body bytea NOT NULL);
ALTER TABLE bench.state ALTER COLUMN body SET STORAGE EXTERNAL
"""
_WRITE = (
    "INSERT INTO bench.state VALUES (%s, %b)"
    " ON CONFLICT (run_uid) DO UPDATE SET body = excluded.body"
)


def measure(ground: Ground, played: Sequence[Played], lengths: Sequence[int], window: int) -> Json:
    """Encode and write, by the turn at which the window ends; with a bare INSERT beside each."""
    with ground.sql() as sql:
        sql.execute(_TABLE)
    return {str(turns): _length(ground, played, turns, window) for turns in lengths}


def _length(ground: Ground, played: Sequence[Played], turns: int, window: int) -> Json:
    state = fold(State(), OPERATOR, first_records("bench", "0" * 64))
    for each in of_turns(played, 0, turns - window):
        fold(state, RUNNER, each.boundary.records)
    bare = Bare(ground.runner)
    cursor = connect(ground.owner)
    writes: list[float] = []
    inserts: list[float] = []
    wal = 0
    for each in of_turns(played, turns - window + 1, turns):
        fold(state, RUNNER, each.boundary.records)
        before = wal_position(cursor)
        start = time.perf_counter()
        encoded = codec.encode_state(state)
        cursor.execute(_WRITE, (f"run-{turns}", encoded.body))
        writes.append(time.perf_counter() - start)
        wal += wal_position(cursor) - before
        inserts.append(bare.insert(each.commit.body))
    bare.close()
    cursor.connection.close()
    return {
        "n": len(writes),
        "p50_ms": ms(statistics.median(writes)),
        "bare_p50_ms": ms(statistics.median(inserts)),
        "ratio": ratio(writes, inserts),
        "wal_bytes": round(wal / len(writes)),
    }
