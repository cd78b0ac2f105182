"""The database crashes, is away for long, or comes back with a record that was tampered with."""

from __future__ import annotations

import asyncio
import signal
from typing import LiteralString

import psycopg
import pytest
from tests.chaos.harness import oracle, scenes
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds, postgres
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.stage import Stage, stage
from tests.peers.toolserver import lines, requests_file

from agentrun.cli.postgres import Dsns
from agentrun.store.embedded import EmbeddedPostgres

RUNS, TURNS = 4, 15
NAMES = [f"run-{number}" for number in range(RUNS)]
TTL = 3


async def _sum(made: Stage) -> int:
    """Commits of all runs together."""
    rows = [await made.row(name) for name in NAMES]
    return sum(row.seq for row in rows if row is not None)


async def _reach(made: Stage, commits: int) -> None:
    async def there() -> bool:
        return await _sum(made) >= commits

    await made.until(there, f"{commits} commits", NAMES[0])


@overlapping
async def test_a_database_that_crashes_during_commits_loses_and_repeats_none(
    shared: Grounds,
) -> None:
    folder = shared.folder("crash")
    environ = {"AGENTRUN_LOG_LEVEL": "DEBUG"}
    with (
        postgres(folder, shared.template) as server,
        scenes.model(folder, scenes.long(TURNS, delay=0.05)) as model,
    ):
        dsns = Dsns(server.dsn, server.runner_dsn)
        async with stage(folder, dsns, environ=environ) as made:
            for name in NAMES:
                await made.apply(scenes.manifest(model.url, shared.tools.url, name=name))
            for commits in (20, 60, 100):
                await _reach(made, commits)
                await asyncio.to_thread(server.restart, immediate=True)
            for name in NAMES:
                await made.ended(name)
            found = [await trail(made, name, model.log, shared.tools.effects) for name in NAMES]
            acknowledged = [_acknowledged(made, one) for one in found]

    for one, told in zip(found, acknowledged, strict=True):
        oracle.check_record(one)
        oracle.check_effects(one)
        assert (one.row.state, one.row.attempt) == ("Succeeded", 1)
        assert one.row.totals.turns == TURNS
        written = {commit.seq: commit.kind for commit in one.log.commits}
        assert told
        assert told.items() <= written.items()
        assert len(one.called) == 2 * (TURNS - 1)
    assert len({oracle.messages(one.state) for one in found}) == 1


def _acknowledged(made: Stage, one: Trail) -> dict[int, str]:
    """Commits that the runner was told of, by number: each once."""
    said = [line for line in made.said(one.row.attempts[0].pod) if line["event"] == "committed"]
    told = {int(line["seq"]): str(line["kind"]) for line in said}
    assert len(told) == len(said)
    return told


OUTAGES = ("stopped", "read only")
"""The second is what a full disk or a failover to a standby look like: reading still works."""


@pytest.mark.parametrize("how", OUTAGES)
@overlapping
async def test_a_database_that_is_away_for_three_leases_costs_no_attempt(
    shared: Grounds, how: str
) -> None:
    """Every lease is over when it returns, and nobody could have renewed any (H15)."""
    folder = shared.folder("away")
    with (
        postgres(folder, shared.template) as server,
        scenes.model(folder, scenes.long(TURNS, delay=0.1)) as model,
    ):
        dsns = Dsns(server.dsn, server.runner_dsn)
        async with stage(folder, dsns) as made:
            for name in NAMES:
                await made.apply(scenes.manifest(model.url, shared.tools.url, name=name, ttl=TTL))
            await _reach(made, 10 * RUNS)
            uids = [await made.uid(name) for name in NAMES]
            await asyncio.to_thread(_away, server, how)
            await asyncio.sleep(TTL)
            before = _calls(shared, model, *uids)
            await asyncio.sleep(2 * TTL)
            after = _calls(shared, model, *uids)
            await asyncio.to_thread(_back, server, how)
            for name in NAMES:
                await made.ended(name)
            found = [await trail(made, name, model.log, shared.tools.effects) for name in NAMES]

    assert before == after, "a call left although the lease was over"
    for one in found:
        oracle.check_record(one)
        oracle.check_effects(one)
        assert (one.row.state, one.row.attempt) == ("Succeeded", 1)
        assert (one.row.app_faults, one.row.infra_faults) == (0, 0)
        assert one.row.totals.turns == TURNS
    assert len({oracle.messages(one.state) for one in found}) == 1


def _away(server: EmbeddedPostgres, how: str) -> None:
    if how == "stopped":
        server.stop(immediate=True)
    else:
        _configure(server.dsn, "ALTER SYSTEM SET default_transaction_read_only = on")


def _back(server: EmbeddedPostgres, how: str) -> None:
    if how == "stopped":
        server.start(prepare=False)
    else:
        _configure(server.dsn, "ALTER SYSTEM RESET default_transaction_read_only")


def _configure(dsn: str, statement: LiteralString) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute(statement)
        owner.execute("SELECT pg_reload_conf()")


BROKEN = {
    "commit": "UPDATE agentrun.commit SET body = {body} WHERE run_uid = %s AND seq = "
    "(SELECT seq FROM agentrun.run WHERE run_uid = %s)",
    "snapshot": "UPDATE agentrun.snapshot SET body = {body} WHERE run_uid = %s AND seq = "
    "(SELECT snapshot_seq FROM agentrun.run WHERE run_uid = %s)",
    "blob": "UPDATE agentrun.blob SET body = {body} WHERE run_uid = %s AND run_uid = %s",
}
FLIPPED = "set_byte(body, length(body) / 2, get_byte(body, length(body) / 2) # 1)"
"""One bit is another one."""


@pytest.mark.parametrize("what", BROKEN)
@overlapping
async def test_a_record_that_was_tampered_with_ends_the_run_and_nothing_is_executed(
    shared: Grounds, what: str
) -> None:
    folder = shared.folder(what)
    with scenes.model(folder, scenes.heavy()) as model:
        async with stage(folder, shared.dsns) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url))
            uid = await _owned_by_nobody(made, name)
            await asyncio.to_thread(_tamper, shared.dsns.operator, what, uid)
            before = _calls(shared, model, uid)
            await made.start_operator()
            await made.ended(name)
            row = await made.row(name)
            after = _calls(shared, model, uid)

    assert row is not None
    assert (row.state, row.reason) == ("Failed", "CheckpointCorrupt")
    assert row.attempt == 2
    assert after == before


async def _owned_by_nobody(made: Stage, name: str) -> str:
    """The run's UID, once it has a snapshot and commits after it, its runner and operator dead."""
    row = await made.row_where(
        name, lambda row: 0 < row.snapshot_seq < row.seq - 2, "commits after a snapshot"
    )
    await made.stop_operators()
    await made.gone(await made.signal(name, signal.SIGKILL))
    return row.run_uid


def _tamper(dsn: str, what: str, uid: str) -> None:
    with psycopg.connect(dsn) as owner:
        statement = BROKEN[what].format(body=FLIPPED)
        assert owner.execute(statement.encode(), (uid, uid)).rowcount >= 1


def _calls(shared: Grounds, model: scenes.Model, *uids: str) -> tuple[int, int]:
    """How many calls models and tools have got from these runs."""
    called = lines(requests_file(shared.tools.effects))
    return len(lines(model.log)), sum(line["meta"]["run-uid"] in uids for line in called)
