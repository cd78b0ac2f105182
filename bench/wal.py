"""Bytes of write-ahead log per boundary, and how many round trips one takes.

Measured without anything beside it: the difference of the log's position around a window of
boundaries, and around bare INSERTs of the same bytes.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
from tests.store.proxy import Proxy

from bench.postgres import Ground, Operator, operators
from bench.sample_run import Played, of_turns
from bench.stats import Json
from bench.writers import Bare, Direct, wal_position


async def measure(
    ground: Ground, played: Sequence[Played], lengths: Sequence[int], window: int, rounds: int
) -> Json:
    """By length: bytes per boundary in a steady state, and right after a checkpoint, when the first
    touch of each page logs the page."""
    with ground.sql() as sql:
        async with operators(ground) as operator:
            return {
                str(turns): await _length(ground, sql, operator, played, turns, window, rounds)
                for turns in lengths
            }


async def _length(
    ground: Ground,
    sql: psycopg.Connection,
    operator: Operator,
    played: Sequence[Played],
    turns: int,
    window: int,
    rounds: int,
) -> Json:
    measured = of_turns(played, turns - window + 1, turns)
    before = of_turns(played, 0, turns - window)
    half = len(measured) // 2
    found: dict[str, list[float]] = {"append": [], "bare": [], "after_checkpoint": []}
    for _ in range(rounds):
        direct, bare = Direct(ground.runner, await operator.hold()), Bare(ground.runner)
        direct.fill(before)
        for each in before[-half:]:
            bare.insert(each.commit.body)
        found["append"].append(_bytes(sql, direct.append, measured[:half]))
        found["bare"].append(_bytes(sql, bare.insert_of, measured[:half]))
        sql.execute("CHECKPOINT")
        found["after_checkpoint"].append(_bytes(sql, direct.append, measured[half:]))
        direct.close()
        bare.close()
    stored = statistics.fmean(len(each.commit.body) for each in measured)
    return {
        "stored_bytes": round(stored),
        **{f"{name}_bytes": round(statistics.median(values)) for name, values in found.items()},
        "limit_bytes": round(1.3 * stored + 1024),
    }


def _bytes(
    sql: psycopg.Connection, write: Callable[[Played], object], part: Sequence[Played]
) -> float:
    """Bytes of log per call."""
    start = wal_position(sql)
    for each in part:
        write(each)
    return (wal_position(sql) - start) / len(part)


async def round_trips(ground: Ground, played: Sequence[Played]) -> float:
    """Round trips per boundary, counted on the wire."""
    with tempfile.TemporaryDirectory(prefix="ar-") as folder:
        proxy = Proxy(Path(folder), ground.runner)
        try:
            async with operators(ground) as operator:
                runner = await operator.runner(proxy.client_dsn)
                proxy.forget()
                for each in played:
                    await runner.append(each.commit, each.sums)
                trips = proxy.round_trips
                await runner.close()
        finally:
            proxy.close()
    return trips / len(played)
