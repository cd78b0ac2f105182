"""The first boundary on a connection that has to be made first.

A runner gives its connection back after five idle seconds, so this is what the boundary after a long
model call costs: connect, plan, append. Beside it, connect and a bare INSERT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from agentrun.store.runner_store import open_runner_store
from bench.postgres import Ground, operators
from bench.sample_run import Played
from bench.stats import Json, ratio, summary, timed
from bench.writers import Bare, append_whole

_IDLE = 0.02


async def measure(ground: Ground, played: Sequence[Played]) -> Json:
    """One sample a boundary."""
    append: list[float] = []
    bare: list[float] = []
    async with operators(ground) as operator:
        hold = await operator.hold()
        runner = open_runner_store(
            ground.runner,
            run_uid=hold.run_uid,
            fence=hold.fence,
            secret=hold.secret,
            holder=hold.holder,
            nonce=hold.nonce,
            idle_seconds=_IDLE,
        )
        await runner.claim()
        for each in played:
            await asyncio.sleep(_IDLE * 3)
            append.append((await append_whole(runner, each))[1])
            once = partial(_once, ground, each.commit.body)
            bare.append(await asyncio.to_thread(timed, once))
        await runner.close()
    return {"append": summary(append), "bare": summary(bare), "ratio": ratio(append, bare)}


def _once(ground: Ground, body: bytes) -> None:
    inserts = Bare(ground.runner)
    inserts.insert(body)
    inserts.close()
