"""PostgreSQL killed, stopped, frozen, full and locked, under load."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import psycopg
import pytest

from agentrun.errors import StoreUnavailable
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.operator_store import open_operator_store
from agentrun.store.roles import LOCAL_ROLE
from agentrun.store.runner_store.facade import PostgresRunnerStore

from .conftest import Own
from .own_servers import worlds
from .world import World, commit, eventually, totals


class Load:
    """Runs that commit as fast as they can, and what was acknowledged to each."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stop = False
        self.acknowledged: dict[str, list[tuple[int, bytes]]] = {}

    async def run(self, runner: PostgresRunnerStore, run_uid: str) -> None:
        mine = self.acknowledged.setdefault(run_uid, [])
        number = 0
        while not self._stop:
            body = b"%d" % number
            mine.append((await runner.append(commit(body=body), totals()), body))
            number += 1

    def stop(self) -> None:
        self._stop = True

    def counts(self) -> list[int]:
        return [len(mine) for mine in self.acknowledged.values()]

    async def check(self) -> None:
        """Every acknowledged commit is there, none twice, none missing in between."""
        for run_uid, mine in self.acknowledged.items():
            stored = (await self._world.operator.commits(run_uid)).commits
            found = [(c.seq, c.body) for c in stored if c.origin == "R"]
            assert found == mine


@asynccontextmanager
async def load(world: World, runs: int = 4) -> AsyncIterator[Load]:
    """So many runs under load."""
    made = Load(world)
    tasks = []
    for _ in range(runs):
        runner, claim = await world.active(lease_ttl_ms=6_000)
        tasks.append(asyncio.create_task(made.run(runner, claim.run_uid)))
    await eventually(lambda: len(made.counts()) == runs and min(made.counts()) > 20, "load")
    yield made
    before = made.counts()
    await eventually(
        lambda: all(now > was + 20 for now, was in zip(made.counts(), before, strict=True)),
        "every run goes on afterwards",
        within=60,
    )
    made.stop()
    await asyncio.gather(*tasks)
    await made.check()


async def test_immediate_restarts_under_load_lose_and_repeat_nothing(own_postgres: Own) -> None:
    server = own_postgres(durable=True)
    async with worlds(server) as world, load(world) as under:
        for _ in range(3):
            before = under.counts()
            await asyncio.to_thread(server.restart, immediate=True)
            await eventually(
                lambda was=before: all(  # type: ignore[misc]
                    now > then + 5 for now, then in zip(under.counts(), was, strict=True)
                ),
                "commits again",
                within=60,
            )


async def test_a_store_that_is_down_for_longer_is_waited_for(own_postgres: Own) -> None:
    server = own_postgres()
    async with worlds(server) as world:
        runner, claim = await world.active(lease_ttl_ms=600)
        operator = await open_operator_store(server.dsn, deadline=0.5)
        await asyncio.to_thread(server.stop)
        waiting = [
            asyncio.ensure_future(runner.append(commit(body=b"%d" % n), totals()))
            for n in range(10)
        ]
        with pytest.raises(StoreUnavailable):
            await operator.ping()
        with pytest.raises(StoreUnavailable):
            await operator.run(claim.run_uid)
        ttl = claim.lease_ttl_ms / 1000
        await eventually(lambda: runner.lease_age() > 2 * ttl, "the lease is long over")
        assert runner.uncommitted_age() > ttl
        assert not any(task.done() for task in waiting)
        await asyncio.to_thread(server.start)
        assert await asyncio.gather(*waiting) == list(range(2, 12))
        assert runner.uncommitted_age() == 0.0

        async def back() -> bool:
            try:
                await operator.ping()
            except StoreUnavailable:
                return False
            return True

        await eventually(back, "the operator is back")
        await operator.close()


async def test_a_runner_can_start_while_the_store_is_away(own_postgres: Own) -> None:
    server = own_postgres()
    async with worlds(server) as world:
        row, secret = await world.minted()
        dsn = server.runner_dsn
        await asyncio.to_thread(server.stop)
        claiming = asyncio.ensure_future(world.runner(row, secret, dsn=dsn).claim())
        impatient = world.runner(row, secret, dsn=dsn, ttl_hint=0.2)
        with pytest.raises(StoreUnavailable):
            await impatient.claim()
        await asyncio.to_thread(server.start)
        assert (await claiming).seq == 1


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Stop processes, as a hung disk or a paused machine does."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def backends(postgres: EmbeddedPostgres, name: str) -> list[int]:
    """Backends by the beginning of their application name."""
    with psycopg.connect(postgres.dsn) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE %s", (f"{name}%",)
        ).fetchall()
    return [pid for (pid,) in rows]


async def test_a_frozen_backend_is_left_behind_at_the_deadline(own_postgres: Own) -> None:
    server = own_postgres()
    async with worlds(server) as world:
        runner, claim = await world.active(lease_ttl_ms=1_200)
        (pid,) = backends(server, f"agentrun {claim.run_uid}")
        with frozen(pid):
            assert await runner.append(commit(body=b"once"), totals()) == 2
            assert runner._engine.wire.opened == 2
        # The old backend wakes up and runs the statement it was given: too late.
        await eventually(
            lambda: pid not in backends(server, "agentrun"), "the old backend has ended"
        )
        assert await runner.append(commit(body=b"twice"), totals()) == 3
        stored = (await world.operator.commits(claim.run_uid)).commits
        assert [c.body for c in stored[1:]] == [b"once", b"twice"]


async def test_a_frozen_server_is_waited_for(own_postgres: Own) -> None:
    server = own_postgres()
    async with worlds(server) as world:
        runner, claim = await world.active(lease_ttl_ms=1_200)
        pids = backends(server, f"agentrun {claim.run_uid}")
        assert server.postmaster_pid is not None
        with frozen(server.postmaster_pid, *pids):
            waiting = asyncio.ensure_future(runner.append(commit(), totals()))
            await eventually(lambda: runner._engine._failures > 1, "it tried again")
            assert not waiting.done()
        assert await waiting == 2
        stored = (await world.operator.commits(claim.run_uid)).commits
        assert len(stored) == 2


async def test_a_frozen_backend_does_not_keep_a_runner_from_closing(own_postgres: Own) -> None:
    server = own_postgres()
    async with worlds(server) as world:
        runner, claim = await world.active()
        pids = backends(server, f"agentrun {claim.run_uid}")
        with frozen(*pids):
            waiting = asyncio.ensure_future(runner.append(commit(), totals()))
            await eventually(lambda: runner._engine.wire._armed is not None, "it was sent")
            await runner.close()
            with pytest.raises(StoreUnavailable):
                await waiting


async def test_the_operator_leaves_a_frozen_backend_behind(own_postgres: Own) -> None:
    server = own_postgres()
    async with worlds(server) as world:
        row = await world.pending()
        operator = await open_operator_store(server.dsn, deadline=0.5, connections=1)
        await operator.ping()
        pids = [pid for pid in backends(server, "agentrun operator") if pid not in _of(world)]
        with frozen(*pids):
            with pytest.raises(StoreUnavailable):
                await operator.run(row.run_uid)
            found = await operator.run(row.run_uid)
            assert found is not None
        await operator.close()


def _of(world: World) -> set[int]:
    return {c.info.backend_pid for c in world.operator._pool._pool}


async def test_a_terminated_connection_is_replaced(world: World, sql: psycopg.Connection) -> None:
    runner, claim = await world.active()
    terminate = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
    )
    for _ in range(5):
        sql.execute(terminate, (f"agentrun {claim.run_uid}%",))
        await runner.append(commit(), totals())
    assert (await world.row(claim.run_uid)).seq == 6


async def test_a_row_that_stays_locked_is_tried_again(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active(lease_ttl_ms=1_200)
    with psycopg.connect(world.postgres.dsn) as holder:
        holder.execute("SELECT 1 FROM agentrun.run WHERE run_uid = %s FOR UPDATE", (claim.run_uid,))
        waiting = asyncio.ensure_future(runner.append(commit(), totals()))
        await eventually(lambda: runner._engine._failures > 1, "it was cancelled and tried again")
    assert await waiting == 2
    assert runner._engine.wire.opened == 1, "a cancelled statement costs no connection"


@pytest.mark.parametrize(
    ("break_", "mend"),
    [
        ("CONNECTION LIMIT 0", "CONNECTION LIMIT -1"),
        ("SET default_transaction_read_only = on", "RESET default_transaction_read_only"),
        ("NOLOGIN", "LOGIN"),
    ],
)
async def test_a_store_that_refuses_connections_is_waited_for(
    world: World, sql: psycopg.Connection, break_: str, mend: str
) -> None:
    row, secret = await world.minted()
    runner = world.runner(row, secret, idle_seconds=0.0)
    await runner.claim()
    await eventually(lambda: runner._engine.wire.connection is None, "it has disconnected")
    sql.execute(f"ALTER ROLE {LOCAL_ROLE} {break_}")
    try:
        waiting = asyncio.ensure_future(runner.append(commit(), totals()))
        await eventually(lambda: runner._engine._failures > 1, "it was refused")
        assert not waiting.done()
    finally:
        sql.execute(f"ALTER ROLE {LOCAL_ROLE} {mend}")
    assert await waiting == 2


async def test_leases_that_nobody_can_renew_are_not_shown_to_the_operator(
    own_postgres: Own,
) -> None:
    """While the database is read-only every lease expires; it once cost runs their attempts (H15)."""
    server = own_postgres()
    async with worlds(server) as world:
        await world.active()
        assert len(await world.operator.live(world.installation)) == 1
        with psycopg.connect(server.dsn, autocommit=True) as owner:
            owner.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            owner.execute("SELECT pg_reload_conf()")

        async def refused() -> bool:
            try:
                await world.operator.live(world.installation)
            except StoreUnavailable as error:
                return "read-only" in str(error)
            return False

        await eventually(refused, "the poll fails")


def test_waits_grow_are_bounded_and_differ() -> None:
    waits: list[float] = []
    jitters: Callable[[], float] = iter([0.0, 1.0] * 20).__next__
    from agentrun.store.runner_store.engine import Ambient, Engine, Listener
    from agentrun.store.runner_store.hold import Hold

    engine = Engine(
        "host=/nowhere",
        Hold("run", 1, b"", "pod", "nonce"),
        ttl=60.0,
        stall_seconds=None,
        idle_seconds=5.0,
        ambient=Ambient(clock=lambda: 0.0, jitter=jitters),
        listener=Listener(),
    )
    for _ in range(40):
        engine._back_off()
        waits.append(engine._retry_at)
    engine.close()
    engine.join()
    assert waits[0] < 0.1
    assert waits[-1] <= 7.5
    assert waits[-1] != waits[-2], "jitter"
