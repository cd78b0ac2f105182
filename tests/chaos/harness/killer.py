"""Kills at random instants."""

from __future__ import annotations

import asyncio
import signal
from random import Random

from tests.chaos.harness.stage import Stage

from agentrun.store.rows import RunRow


async def kill_at_random(stage: Stage, name: str, random: Random, times: int) -> int:
    """Kill one attempt after the other; how many were killed before the run was over.

    Some die while they start, most of them a moment after their first commit. An attempt that got
    on is killed behind everybody's back (an App fault), the others as ``agentrun kill`` does it (an
    Infra fault): three App faults without progress would end the run, and rightly so.
    """
    progress = 0
    for attempt in range(1, times + 1):
        row = await _moment(stage, name, random, attempt)
        if row.state.terminal or row.attempt != attempt:
            return attempt - 1
        if row.holder is not None and row.progress_seq > progress:
            await stage.signal(name, signal.SIGKILL)
        elif await stage.kill(name) is None:
            return attempt - 1
        progress = row.progress_seq
        await _replaced(stage, name, attempt)
    return times


async def _replaced(stage: Stage, name: str, attempt: int) -> None:
    await stage.row_where(
        name, lambda row: row.attempt > attempt or row.state.terminal, "a new attempt"
    )


async def _moment(stage: Stage, name: str, random: Random, attempt: int) -> RunRow:
    """The row as it is when this attempt is to die."""
    early = random.random() < 0.3
    since = 0

    def begun(row: RunRow) -> bool:
        nonlocal since
        last = row.attempts[-1] if row.attempts else None
        if row.state.terminal or last is None or row.attempt != attempt:
            return row.state.terminal
        if early:
            return stage.runner_of(last.pod) is not None
        since = since or (row.seq if row.holder else 0)
        return row.holder is not None and row.seq > since

    await stage.row_where(name, begun, f"attempt {attempt} has begun")
    await asyncio.sleep(random.uniform(0, 1.5 if early else 0.5))
    row = await stage.row(name)
    assert row is not None
    return row
