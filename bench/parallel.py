"""Several runs at once, each in a process of its own, as runners in pods are.

The processes append for a while, all at once; then all insert for a while; and again. Each phase
begins for all at the same moment, and both kinds meet the same machine.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from agentrun.store.port import NewCommit
from agentrun.store.rows import TotalsRow
from agentrun.store.runner_store import Hold
from bench.postgres import Ground, open_store, operators
from bench.sample_run import Played
from bench.stats import Json, summary
from bench.writers import Bare

Rows = Sequence[tuple[NewCommit, TotalsRow]]

KINDS = ("append", "bare")
_READY_SECONDS = 120


def measure(
    ground: Ground, played: Sequence[Played], counts: Sequence[int], seconds: float, phases: int
) -> Json:
    """Boundaries a second and latency, by the number of runs at once."""
    rows = [(each.commit, each.sums) for each in played]
    return {str(count): _at_once(ground, rows, count, seconds, phases) for count in counts}


def _at_once(ground: Ground, rows: Rows, count: int, seconds: float, phases: int) -> Json:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.parallel"])
    barrier = context.Barrier(count)
    pipes: list[Connection] = []
    processes = []
    for hold in asyncio.run(_holds(ground, count)):
        ours, theirs = context.Pipe()
        arguments = (ground.runner, hold, rows, seconds, phases, barrier, theirs)
        process = context.Process(target=_runner, args=arguments, daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    answers: list[list[dict[str, list[float]]]] = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return _told(answers, count, seconds, phases)


def _told(
    answers: Sequence[Sequence[dict[str, list[float]]]], count: int, seconds: float, phases: int
) -> Json:
    found: Json = {"runs": count}
    rates: dict[str, list[float]] = {}
    for kind in KINDS:
        times = [value for one in answers for phase in one for value in phase[kind]]
        rates[kind] = [
            sum(len(one[phase][kind]) for one in answers) / seconds for phase in range(phases)
        ]
        found[kind] = {"per_second": round(statistics.median(rates[kind])), **summary(times)}
    pairs = sorted(a / b for a, b in zip(rates["append"], rates["bare"], strict=True))
    found["rate_to_bare"] = round(statistics.median(pairs), 2)
    found["rate_to_bare_phases"] = [round(pairs[0], 2), round(pairs[-1], 2)]
    return found


async def _holds(ground: Ground, count: int) -> list[Hold]:
    async with operators(ground) as operator:
        return [await operator.hold() for _ in range(count)]


def _runner(
    dsn: str, hold: Hold, rows: Rows, seconds: float, phases: int, barrier: Any, pipe: Connection
) -> None:
    """A runner's process: its samples by phase."""
    pipe.send(asyncio.run(_phases(dsn, hold, rows, seconds, phases, barrier)))
    pipe.close()


async def _phases(
    dsn: str, hold: Hold, rows: Rows, seconds: float, phases: int, barrier: Any
) -> list[dict[str, list[float]]]:
    runner, bare = open_store(dsn, hold), Bare(dsn)
    await runner.claim()
    commits = _endless(rows)

    async def append() -> float:
        commit, sums = next(commits)
        start = time.perf_counter()
        await runner.append(commit, sums)
        return time.perf_counter() - start

    async def insert() -> float:
        return await bare.insert_whole(next(commits)[0].body)

    for _ in range(10):
        await append()
        await insert()
    found: list[dict[str, list[float]]] = []
    for _ in range(phases):
        found.append({})
        for kind, write in zip(KINDS, (append, insert), strict=True):
            await asyncio.to_thread(barrier.wait, _READY_SECONDS)
            until = time.perf_counter() + seconds
            times = found[-1].setdefault(kind, [])
            while time.perf_counter() < until:
                times.append(await write())
    await runner.close()
    bare.close()
    return found


def _endless(rows: Rows) -> Iterator[tuple[NewCommit, TotalsRow]]:
    """The same bodies again and again; a reference is used once in a run."""
    number = 0
    while True:
        for commit, sums in rows:
            number += 1
            ref = None if commit.ref is None else f"result:main/1/{number}/0"
            yield replace(commit, ref=ref), sums
