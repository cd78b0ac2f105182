"""Nothing depends on a session: both stores and migrations work behind a pooler."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.operator_store import open_operator_store

from .conftest import short_folder
from .pooler import Pooler
from .world import SUSPENDED, World, commit, totals


@pytest.fixture
def poolers(postgres: EmbeddedPostgres) -> Iterator[list[Pooler]]:
    """One for the operator's login, one for the runners'."""
    folders = [short_folder(), short_folder()]
    dsns = [postgres.dsn, postgres.runner_dsn]
    made = [Pooler(folder, dsn) for folder, dsn in zip(folders, dsns, strict=True)]
    yield made
    for pooler, folder in zip(made, folders, strict=True):
        pooler.close()
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_whole_run_behind_a_pooler_in_transaction_mode(
    world: World, poolers: list[Pooler]
) -> None:
    for_operator, for_runners = poolers
    direct, world.operator = world.operator, await open_operator_store(for_operator.client_dsn)
    await direct.close()
    await world.operator.ping()
    runner, claim = await world.active(options={"dsn": for_runners.client_dsn})
    for number in range(30):
        assert await runner.append(commit(), totals()) == number + 2
    await runner.snapshot(1, 20, 0, b"state")
    assert len((await runner.restore()).commits) == 11
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    row = await world.suspended(2, options={"dsn": for_runners.client_dsn})
    for index in (0, 1):
        assert await world.decide(row, index) is not None
    assert (await world.row(row.run_uid)).attempt == 2
    assert len((await world.operator.commits(claim.run_uid)).commits) == 32
    assert all(count > 3 for count in for_runners.served + for_operator.served)
