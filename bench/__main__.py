"""``python -m bench [--quick] [--out FILE] [--peers PYTHON]``: measure everything, print, write."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench import boundary, fresh, overwrite, parallel, restore, wal
from bench.machine import load, machine
from bench.peers import run as peers
from bench.postgres import Ground, grounds
from bench.report import tables
from bench.sample_run import BOUNDARIES_A_TURN, Played, of_turns, play
from bench.stats import Json
from bench.targets import targets

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. ``window``: the turns measured at each length."""

    turns: tuple[int, ...] = (20, 200, 1_000)
    window: int = 10
    rounds: int = 20
    wal_rounds: int = 5
    fresh: int = 60
    runs: tuple[int, ...] = (1, 4, 16)
    seconds: float = 1.0
    phases: int = 5
    commits: tuple[int, ...] = (20, 200, 1_000, 5_000, 20_000)
    restores: int = 7
    peers: bool = True


QUICK = Scale(
    turns=(16, 200),
    rounds=4,
    wal_rounds=3,
    fresh=5,
    runs=(1, 2),
    seconds=0.3,
    phases=2,
    commits=(20, 400),
    restores=3,
    peers=False,
)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measured workloads.")
    parser.add_argument("--quick", action="store_true", help="small, to see that it works")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.json")
    parser.add_argument(
        "--peers",
        default=os.environ.get("BENCH_PEERS_PYTHON"),
        help="an interpreter that has langgraph, langgraph-checkpoint-postgres, psycopg, dbos",
    )
    given = parser.parse_args()
    results = measure(QUICK if given.quick else Scale(), given.peers)
    given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(tables(results))


def measure(scale: Scale, python: str | None) -> Json:
    """Every workload on one server, one after another."""
    started, before = time.monotonic(), load()
    longest = max(scale.turns[-1] * BOUNDARIES_A_TURN + 2, scale.commits[-1])
    played = _step("play", lambda: play(longest))
    # A runner has no such heap: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    with grounds() as ground:
        results: Json = {"machine": machine(ground), **_workloads(ground, played, scale, python)}
    results["noise"] = {
        "load_before": before,
        "load_after": load(),
        "seconds": round(time.monotonic() - started),
    }
    results["targets"] = targets(results)
    return results


def _workloads(
    ground: Ground, played: tuple[Played, ...], scale: Scale, python: str | None
) -> Json:
    turns, window = scale.turns, scale.window
    some = of_turns(played, 1, 20)
    peer_lengths = turns if scale.peers else ()
    return {
        "boundary": _step(
            "boundary",
            lambda: asyncio.run(boundary.measure(ground, played, turns, window, scale.rounds)),
        ),
        "wal": _step(
            "wal", lambda: asyncio.run(wal.measure(ground, played, turns, window, scale.wal_rounds))
        ),
        "round_trips": asyncio.run(wal.round_trips(ground, some)),
        "fresh": _step("fresh", lambda: asyncio.run(fresh.measure(ground, some[: scale.fresh]))),
        "parallel": _step(
            "parallel",
            lambda: parallel.measure(ground, some, scale.runs, scale.seconds, scale.phases),
        ),
        "restore": _step(
            "restore",
            lambda: asyncio.run(restore.measure(ground, played, scale.commits, scale.restores)),
        ),
        "peers": {
            "one row, overwritten": _step(
                "overwrite", lambda: overwrite.measure(ground, played, turns, window)
            ),
            **_step("peers", lambda: peers.measure(ground, played, peer_lengths, window, python)),
        },
    }


def _step(name: str, work: Callable[[], T]) -> T:
    """Say what is going on: minutes pass."""
    start = time.monotonic()
    print(f"{name} … ", end="", file=sys.stderr, flush=True)
    found = work()
    print(f"{time.monotonic() - start:.0f} s", file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
