"""Two statements at once about one run. Who wins is luck, what may come of it is not.

Each scene is played many times, both freely and with the run row held by a third connection until
all are waiting for it, which is the worst order there is.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from agentrun.errors import Fenced, StoreError
from agentrun.run.chain import genesis, link
from agentrun.run.values import LastWord
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.operator_store import PostgresOperatorStore, open_operator_store
from agentrun.store.port import AttemptEnd, NewCommit
from agentrun.store.rows import Budgets, Requested, RunRow, RunState

from .world import OBJECT, SUCCEEDED, World, commit, eventually, question, seen, totals

TIMES = 60
ENDED = AttemptEnd("PodLost", "Infra")


@pytest.fixture
async def rival(postgres: EmbeddedPostgres) -> AsyncIterator[PostgresOperatorStore]:
    """A second operator."""
    store = await open_operator_store(postgres.dsn)
    yield store
    await store.close()


@contextmanager
def held(postgres: EmbeddedPostgres, run_uid: str) -> Iterator[psycopg.Connection]:
    """Hold a run's row until the block ends."""
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("SELECT 1 FROM agentrun.run WHERE run_uid = %s FOR UPDATE", (run_uid,))
        yield connection


async def race(
    world: World, sql: psycopg.Connection, row: RunRow, *contenders: Awaitable[Any]
) -> list[Any]:
    """Let all of them wait for the row before any of them gets it."""
    with held(world.postgres, row.run_uid) as holder:
        pid = holder.info.backend_pid
        tasks = [asyncio.ensure_future(c) for c in contenders]
        await eventually(
            lambda: _waiting(sql, pid) >= len(tasks) or all(t.done() for t in tasks),
            "all wait for the row",
        )
    return list(await asyncio.gather(*tasks, return_exceptions=True))


def _waiting(sql: psycopg.Connection, pid: int) -> int:
    """Backends that wait for ``pid``, directly or behind another one that does."""
    row = sql.execute(
        "WITH RECURSIVE w(pid) AS (SELECT %s::int4 UNION SELECT a.pid FROM pg_stat_activity a, w"
        " WHERE w.pid = ANY (pg_blocking_pids(a.pid))) SELECT count(*) - 1 FROM w",
        (pid,),
    ).fetchone()
    return int(row[0]) if row else 0


async def sound(world: World, run_uid: str) -> list[Any]:
    """The oracle: dense seqs, unbroken chain, fences that never go back."""
    commits = list((await world.operator.commits(run_uid)).commits)
    assert [c.seq for c in commits] == list(range(1, len(commits) + 1))
    chain = genesis(run_uid)
    for c in commits:
        chain = link(chain, c.seq, c.origin, c.kind, c.ref, c.codec, c.body)
        assert chain == c.chain
    assert [c.fence for c in commits] == sorted(c.fence for c in commits)
    return commits


@pytest.mark.parametrize("gated", [False, True], ids=["free", "gated"])
async def test_h12_two_decisions_at_once_resume_the_run_exactly_once(
    world: World, sql: psycopg.Connection, rival: PostgresOperatorStore, gated: bool
) -> None:
    for _ in range(TIMES):
        row = await world.suspended(2)
        both = (world.decide(row, 0), world.decide(row, 1, operator=rival))
        results = await (race(world, sql, row, *both) if gated else asyncio.gather(*both))
        assert all(isinstance(r, RunRow) for r in results), results
        after = await world.row(row.run_uid)
        assert (after.state, after.attempt, after.fence) == (RunState.ACTIVE, 2, 2)
        kinds = [c.kind for c in await sound(world, row.run_uid)]
        assert kinds.count("approval/decision") == 2
        assert kinds.count("attempt/start") == 2


@pytest.mark.parametrize("gated", [False, True], ids=["free", "gated"])
async def test_two_mints_at_once_make_one_attempt(
    world: World, sql: psycopg.Connection, rival: PostgresOperatorStore, gated: bool
) -> None:
    for _ in range(TIMES):
        row = await world.pending()
        both = [
            operator.mint(seen(row), "start", world.attempt(secrets.token_bytes(32)), None)
            for operator in (world.operator, rival)
        ]
        results = await (race(world, sql, row, *both) if gated else asyncio.gather(*both))
        assert sorted(r is None for r in results) == [False, True]
        after = await world.row(row.run_uid)
        assert (after.attempt, after.fence, after.seq) == (1, 1, 1)


def written(form: str, run_uid: str, body: bytes) -> NewCommit:
    """A commit that takes one or the other of the two SQL functions."""
    asked = (question(run_uid),) if form == "group" else ()
    return commit(body=body, approvals=asked)


@pytest.mark.parametrize("form", ["single", "group"])
async def test_sixty_forced_takeovers_let_no_stale_write_land(
    world: World, sql: psycopg.Connection, form: str
) -> None:
    landed = 0
    for _ in range(TIMES):
        runner, claim = await world.active()
        await runner.append(commit(), totals())
        world.expire(sql, claim.run_uid)
        row = await world.row(claim.run_uid)
        new = world.attempt(secrets.token_bytes(32))
        take_over = world.operator.mint(seen(row), "lease-expired", new, ENDED)
        appended, minted = await race(
            world,
            sql,
            row,
            runner.append(written(form, row.run_uid, b"late"), totals()),
            take_over,
        )
        commits = await sound(world, row.run_uid)
        late = [c for c in commits if c.body == b"late"]
        if isinstance(appended, int):
            landed += 1
            assert minted is None, "its reason was gone: the lease was extended"
            assert [c.seq for c in late] == [appended]
        else:
            assert isinstance(appended, Fenced)
            assert isinstance(minted, RunRow)
            assert late == []
    assert 0 <= landed <= TIMES


async def test_takeovers_of_an_owner_that_never_stops_writing(
    world: World, sql: psycopg.Connection
) -> None:
    """Unsynchronised: the old owner appends as fast as it can while it is taken over."""
    for _ in range(20):
        runner, claim = await world.active()
        acknowledged: list[int] = []
        writing = asyncio.create_task(_write_until_fenced(runner, acknowledged))
        await eventually(lambda so_far=acknowledged: len(so_far) > 3, "it writes")  # type: ignore[misc]
        minted = None
        while minted is None:
            row = await world.row(claim.run_uid)
            new = world.attempt(secrets.token_bytes(32))
            minted = await world.operator.mint(seen(row), "ended", new, ENDED)
        assert isinstance(await writing, Fenced)
        commits = await sound(world, claim.run_uid)
        stored = [c.seq for c in commits if c.origin == "R"]
        assert stored == acknowledged, "what was acknowledged is there, and nothing else"
        assert commits[-1].kind == "attempt/start"


async def _write_until_fenced(runner: Any, acknowledged: list[int]) -> StoreError:
    while True:
        try:
            acknowledged.append(await runner.append(commit(), totals()))
        except StoreError as error:
            return error


@pytest.mark.parametrize("reason", ["ended", "gone", "lease-expired"])
async def test_h60_a_mint_and_a_final_commit_on_the_wire(
    world: World, sql: psycopg.Connection, reason: str
) -> None:
    for _ in range(20):
        runner, claim = await world.active()
        if reason == "lease-expired":
            world.expire(sql, claim.run_uid)
        row = await world.row(claim.run_uid)
        new = world.attempt(secrets.token_bytes(32))
        final, minted = await race(
            world,
            sql,
            row,
            runner.append(commit("run/end"), totals(), end=SUCCEEDED),
            world.operator.mint(seen(row), reason, new, ENDED),
        )
        after = await world.row(row.run_uid)
        assert isinstance(final, int) is (minted is None)
        assert after.state is (RunState.SUCCEEDED if minted is None else RunState.ACTIVE)
        assert after.fence == (1 if minted is None else 2)
        await sound(world, row.run_uid)


async def test_h60_a_cancel_and_a_final_commit_never_both_win(
    world: World, sql: psycopg.Connection
) -> None:
    for _ in range(20):
        runner, claim = await world.active()
        row = await world.operator.request(
            claim.run_uid, OBJECT, 1, Requested.CANCEL, "User", "", Budgets()
        )
        assert row is not None
        final, cancelled = await race(
            world,
            sql,
            row,
            runner.append(commit("run/end"), totals(), end=SUCCEEDED),
            world.operator.finish(seen(row), RunState.CANCELLED, "", "", 0, b"x", ENDED),
        )
        after = await world.row(row.run_uid)
        assert isinstance(final, int) is (cancelled is None)
        assert after.state is (RunState.SUCCEEDED if cancelled is None else RunState.CANCELLED)
        ends = [c for c in await sound(world, row.run_uid) if c.kind == "run/end"]
        assert len(ends) == 1


async def test_h61_an_outcome_and_a_claim_of_the_unclaimed_fence(
    world: World, sql: psycopg.Connection
) -> None:
    for _ in range(20):
        row, secret = await world.minted()
        cancelled = await world.operator.request(
            row.run_uid, OBJECT, 1, Requested.CANCEL, "User", "", Budgets()
        )
        assert cancelled is not None
        runner = world.runner(row, secret)
        claimed, finished = await race(
            world,
            sql,
            row,
            runner.claim(),
            world.operator.finish(seen(cancelled), RunState.CANCELLED, "", "", 0, b"x", None),
        )
        if finished is None:
            assert not isinstance(claimed, Exception)
            assert await runner.append(commit(), totals()) == 2
        else:
            assert isinstance(claimed, Fenced)
            assert (await world.row(row.run_uid)).state is RunState.CANCELLED
        await sound(world, row.run_uid)


async def test_two_pods_of_one_fence_claim_at_once(world: World, sql: psycopg.Connection) -> None:
    """H65: an operator died between secret and pod, another made a second one: one owner."""
    for _ in range(20):
        row, first = await world.minted()
        second = secrets.token_bytes(32)
        assert await world.operator.add_secret(seen(row), world.attempt(second).secret_hash)
        pods = [world.runner(row, first, holder="a"), world.runner(row, second, holder="b")]
        results = await race(world, sql, row, *(pod.claim() for pod in pods))
        lost = [isinstance(r, Fenced) for r in results]
        assert sorted(lost) == [False, True]
        assert await pods[lost.index(False)].append(commit(), totals()) == 2


async def test_a_decision_and_a_cancel_at_once(
    world: World, sql: psycopg.Connection, rival: PostgresOperatorStore
) -> None:
    for _ in range(20):
        row = await world.suspended(1)
        decided, wished = await race(
            world,
            sql,
            row,
            world.decide(row),
            rival.request(row.run_uid, OBJECT, 2, Requested.CANCEL, "User", "", Budgets()),
        )
        assert wished is not None
        after = await world.row(row.run_uid)
        assert after.requested is Requested.CANCEL
        assert after.state is (RunState.SUSPENDED if decided is None else RunState.ACTIVE)


@pytest.mark.parametrize("form", ["single", "group"])
async def test_a_revocation_and_everything_else_at_once(
    world: World, sql: psycopg.Connection, rival: PostgresOperatorStore, form: str
) -> None:
    for _ in range(20):
        runner, claim = await world.active()
        row = await world.row(claim.run_uid)
        new = world.attempt(secrets.token_bytes(32))
        await race(
            world,
            sql,
            row,
            world.operator.revoke(row.run_uid, OBJECT, "Deleted"),
            runner.append(written(form, row.run_uid, b"late"), totals()),
            rival.mint(seen(row), "ended", new, ENDED),
        )
        after = await world.row(row.run_uid)
        assert after.state is RunState.REVOKED
        commits = await sound(world, row.run_uid)
        with pytest.raises(StoreError):
            await runner.append(commit(), totals())
        assert await sound(world, row.run_uid) == commits


async def test_two_suspensions_of_one_boundary(world: World, sql: psycopg.Connection) -> None:
    """The pod gives the run back while the operator takes it: one of the two, never twice."""
    for _ in range(20):
        runner, claim = await world.active()
        row = await world.operator.request(
            claim.run_uid, OBJECT, 1, Requested.SUSPEND, "User", "", Budgets()
        )
        assert row is not None
        end = LastWord(RunState.SUSPENDED, "SuspendedByUser", "")
        await race(
            world,
            sql,
            row,
            runner.append(commit("run/suspend"), totals(), end=end),
            world.operator.suspend(seen(row), "SuspendedByUser", "", 0, b"x", ENDED),
        )
        suspensions = [c for c in await sound(world, row.run_uid) if c.kind == "run/suspend"]
        assert len(suspensions) == 1
        assert (await world.row(row.run_uid)).state is RunState.SUSPENDED
