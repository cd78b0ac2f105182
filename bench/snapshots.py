"""A run whose runner has written snapshots by its own rule, and what they came to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from agentrun.run import codec
from agentrun.run.fold import OPERATOR, RUNNER, fold
from agentrun.run.records import SCHEMA_VERSION
from agentrun.run.state import State
from agentrun.runner.snapshots import Growth
from agentrun.store.runner_store import Hold
from agentrun.store.runner_store.facade import PostgresRunnerStore
from bench.postgres import CAPTURED
from bench.sample_run import Played, first_records


@dataclass(slots=True)
class Snapshots:
    """Bytes of all snapshots of a run, and the most they ever were of its stored commits."""

    written: int = 0
    stored: int = 0
    tail: int = 0
    peak: float = 0.0

    def committed(self, size: int) -> None:
        """A commit of the run."""
        self.stored += size
        self.tail += 1

    def wrote(self, size: int) -> None:
        """A snapshot of it."""
        self.written += size
        self.tail = 0
        self.peak = max(self.peak, self.written / self.stored)


async def fill_with_snapshots(
    runner: PostgresRunnerStore, hold: Hold, played: Sequence[Played]
) -> Snapshots:
    """Append, and write a snapshot wherever the runner's own rule says so."""
    state = fold(State(), OPERATOR, first_records(hold.run_uid, CAPTURED.spec_hash))
    found = Snapshots()
    growth = Growth()
    waiting: list[Awaitable[int]] = []
    for seq, each in enumerate(played, start=2):
        fold(state, RUNNER, each.boundary.records)
        waiting.append(asyncio.ensure_future(runner.append(each.commit, each.sums)))
        growth.commits += 1
        growth.size += len(each.commit.body)
        found.committed(len(each.commit.body))
        if growth.due():
            await asyncio.gather(*waiting)
            waiting = []
            encoded = codec.encode_state(state)
            await runner.snapshot(SCHEMA_VERSION, seq, encoded.codec, encoded.body, encoded.blobs)
            found.wrote(len(encoded.body))
            growth = Growth(snapshot=len(encoded.body))
    await asyncio.gather(*waiting)
    return found
