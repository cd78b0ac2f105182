"""One boundary made durable, and its bytes inserted, one right after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from agentrun.store.runner_store.facade import PostgresRunnerStore
from bench.sample_run import Played
from bench.writers import Bare, Direct, append_whole

Samples = dict[str, list[float]]
"""Seconds by name."""
Pair = Callable[[Played, int], Coroutine[Any, Any, None]]
"""Takes a boundary and its position: they take turns at being first."""
TIMES = ("append", "bare", "statement", "bare_statement")


def whole(samples: Samples, runner: PostgresRunnerStore, bare: Bare) -> Pair:
    """From the event loop to the event loop."""

    async def insert(played: Played) -> None:
        cpu = time.process_time()
        samples["bare"].append(await bare.insert_whole(played.commit.body))
        samples["bare_cpu"].append(time.process_time() - cpu)

    async def pair(played: Played, index: int) -> None:
        if index % 2:
            await insert(played)
        cpu = time.process_time()
        encode, append = await append_whole(runner, played)
        samples["cpu"].append(time.process_time() - cpu)
        samples["encode"].append(encode)
        samples["append"].append(append)
        samples["encoded"].append(encode + append)
        if not index % 2:
            await insert(played)

    return pair


def alone(samples: Samples, direct: Direct, bare: Bare) -> Pair:
    """The statement by itself."""

    async def pair(played: Played, index: int) -> None:
        if index % 2:
            samples["bare_statement"].append(bare.insert_of(played))
        samples["statement"].append(direct.append(played))
        if not index % 2:
            samples["bare_statement"].append(bare.insert_of(played))

    return pair
