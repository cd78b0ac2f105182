"""Restore: fetch, verify, decode and fold, through the store and the function a runner uses.

Two runs of each length: one with the snapshots its runner would have written, one without any. Beside
them a bare SELECT of the same bytes, which neither verifies nor decodes.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from tests.store.proxy import Proxy

from agentrun.errors import CheckpointCorrupt
from agentrun.runner.restore import folded, opened, restore
from agentrun.store.port import Claim
from agentrun.store.runner_store import Hold
from agentrun.store.runner_store.facade import PostgresRunnerStore
from bench.postgres import Ground, Operator, fill, open_store, operators
from bench.sample_run import Played
from bench.snapshots import Snapshots, fill_with_snapshots
from bench.stats import Json, ms, ratio

_SELECT = "SELECT seq, body FROM agentrun.commit WHERE run_uid = %s ORDER BY seq"


async def measure(
    ground: Ground, played: Sequence[Played], lengths: Sequence[int], repeats: int
) -> Json:
    """Milliseconds by number of commits."""
    async with operators(ground) as operator:
        with tempfile.TemporaryDirectory(prefix="ar-") as folder:
            proxy = Proxy(Path(folder), ground.runner)
            try:
                return {
                    str(length): await _length(
                        ground, operator, proxy, played[: length - 1], repeats
                    )
                    for length in lengths
                }
            finally:
                proxy.close()


async def _length(
    ground: Ground, operator: Operator, proxy: Proxy, played: Sequence[Played], repeats: int
) -> Json:
    plain, shot = await operator.hold(), await operator.hold()
    grown = Snapshots()
    for hold in (plain, shot):
        runner = open_store(ground.runner, hold)
        await runner.claim()
        if hold is plain:
            await fill(runner, played)
        else:
            grown = await fill_with_snapshots(runner, hold, played)
        await runner.close()
    with ground.sql() as sql:
        sql.execute("VACUUM (ANALYZE) agentrun.commit")
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(repeats):
        await _once(ground, plain, shot, times)
    stored = sum(len(each.commit.body) for each in played)
    return {
        "commits": len(played) + 1,
        "stored_bytes": stored,
        "snapshot_bytes": grown.written,
        "snapshot_share": round(grown.peak, 2),
        "tail_commits": grown.tail,
        "without_snapshot_ms": ms(statistics.median(times["plain"])),
        "with_snapshot_ms": ms(statistics.median(times["shot"])),
        "with_snapshot_cpu_ms": ms(statistics.median(times["shot_cpu"])),
        "without_snapshot_cpu_ms": ms(statistics.median(times["plain_cpu"])),
        "fetch_ms": ms(statistics.median(times["fetch"])),
        "fold_ms": ms(statistics.median(times["fold"])),
        "select_ms": ms(statistics.median(times["select"])),
        "ratio_to_select": ratio(times["plain"], times["select"]),
        "queries": await _queries(proxy, shot),
    }


async def _once(ground: Ground, plain: Hold, shot: Hold, times: dict[str, list[float]]) -> None:
    """One sample of each, one after another. A fresh process has to connect as well, and to claim:
    neither depends on the length, so neither is in the time."""
    for name, hold in (("plain", plain), ("shot", shot)):
        runner = open_store(ground.runner, hold)
        claim = await runner.claim()
        gc.collect()
        start, cpu = time.perf_counter(), time.process_time()
        resumed = await restore(runner, claim, _offload)
        times[name].append(time.perf_counter() - start)
        times[f"{name}_cpu"].append(time.process_time() - cpu)
        if resumed.state.totals.turns == 0 and claim.seq > 10:
            raise CheckpointCorrupt("restored nothing")
        if name == "plain":
            await _parts(runner, claim, times)
        await runner.close()
    with psycopg.connect(ground.owner) as sql:
        cursor = sql.cursor(binary=True)
        start = time.perf_counter()
        cursor.execute(_SELECT, (plain.run_uid,)).fetchall()
        times["select"].append(time.perf_counter() - start)


async def _parts(runner: PostgresRunnerStore, claim: Claim, times: dict[str, list[float]]) -> None:
    start = time.perf_counter()
    restored = await runner.restore()
    fetched = time.perf_counter()
    folded(claim, restored, opened(restored), {})
    times["fetch"].append(fetched - start)
    times["fold"].append(time.perf_counter() - fetched)


async def _queries(proxy: Proxy, hold: Hold) -> int:
    runner = open_store(proxy.client_dsn, hold)
    claim = await runner.claim()
    proxy.forget()
    await restore(runner, claim, _offload)
    queries = proxy.round_trips
    await runner.close()
    return queries


async def _offload(work: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(work)
