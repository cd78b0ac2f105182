"""The lease: who renews it, who does not, and how old it is."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

import psycopg
import pytest

from agentrun.errors import Fenced, StoreRegressed
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import Budgets, Requested
from agentrun.store.runner_store.engine import Ambient, boottime
from agentrun.store.runner_store.wire import Wire

from .proxy import Proxy
from .world import OBJECT, World, commit, eventually, seen, totals

SHORT = 600
"""A TTL in ms that is over several times within a test."""


def expiry(sql: psycopg.Connection, run_uid: str) -> Any:
    """When the lease runs out."""
    row = sql.execute(
        "SELECT lease_expires_at FROM agentrun.run WHERE run_uid = %s", (run_uid,)
    ).fetchone()
    return row[0] if row else None


def expired(sql: psycopg.Connection, run_uid: str) -> bool:
    """Whether it has."""
    row = sql.execute(
        "SELECT lease_expires_at <= clock_timestamp() FROM agentrun.run WHERE run_uid = %s",
        (run_uid,),
    ).fetchone()
    return bool(row and row[0])


async def test_a_blocked_event_loop_does_not_starve_the_lease(
    world: World, sql: psycopg.Connection
) -> None:
    _, claim = await world.active(lease_ttl_ms=SHORT)
    renewals = {expiry(sql, claim.run_uid)}
    while len(renewals) < 5:  # no await: nothing else runs on this loop meanwhile
        renewals.add(expiry(sql, claim.run_uid))
        assert not expired(sql, claim.run_uid)


async def test_a_main_loop_without_progress_loses_the_lease(
    world: World, sql: psycopg.Connection
) -> None:
    options = {"stall_seconds": SHORT / 2000}
    runner, claim = await world.active(lease_ttl_ms=SHORT, options=options)
    await eventually(lambda: expired(sql, claim.run_uid), "the lease runs out")
    assert runner.lease_age() > 0
    for _ in range(2):
        await runner.restore()
        assert expired(sql, claim.run_uid), "other statements do not make up for it"
    runner.mark_progress()
    await eventually(lambda: not expired(sql, claim.run_uid), "it is renewed again")


async def test_appends_renew_and_no_renewal_is_sent_beside_them(
    world: World, proxy: Proxy, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active(lease_ttl_ms=SHORT, options={"dsn": proxy.client_dsn})
    first = expiry(sql, claim.run_uid)
    proxy.forget()
    appended, pauses, last = 0, 0, time.monotonic()
    while (expiry(sql, claim.run_uid) - first).total_seconds() < 3 * SHORT / 1000:
        await runner.append(commit(), totals())
        appended += 1
        pauses += time.monotonic() - last > SHORT / 3500  # the machine was busy: one may be due
        last = time.monotonic()
    assert appended <= proxy.round_trips <= appended + pauses


async def test_release_stops_the_renewals(world: World, sql: psycopg.Connection) -> None:
    runner, claim = await world.active(lease_ttl_ms=SHORT)
    await runner.release()
    assert expired(sql, claim.run_uid)
    at = expiry(sql, claim.run_uid)
    await eventually(lambda: runner.lease_age() > SHORT / 1000, "a renewal would have been due")
    assert expiry(sql, claim.run_uid) == at


async def test_an_expired_owner_that_nobody_replaced_goes_on(
    world: World, sql: psycopg.Connection
) -> None:
    """H15: the database was away for longer than the lease; expiry is only permission."""
    runner, claim = await world.active()
    world.expire(sql, claim.run_uid)
    assert await runner.append(commit(), totals()) == 2
    assert not expired(sql, claim.run_uid)


async def test_the_renewal_is_the_control_channel(world: World) -> None:
    runner, claim = await world.active(lease_ttl_ms=SHORT)
    news = asyncio.ensure_future(runner.control_changed(claim.control))
    budgets = Budgets(turns=3)
    await world.operator.request(
        claim.run_uid, OBJECT, 2, Requested.CANCEL, "Deadline", "operator", budgets
    )
    control = await news
    assert (control.requested, control.requested_reason) == (Requested.CANCEL, "Deadline")
    assert control.budgets == budgets
    assert runner.control() == control


async def test_an_idle_owner_learns_that_it_was_replaced(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active(lease_ttl_ms=SHORT)
    news = asyncio.ensure_future(runner.control_changed(claim.control))
    row = await world.row(claim.run_uid)
    new = world.attempt(secrets.token_bytes(32))
    assert await world.operator.mint(seen(row), "ended", new, AttemptEnd("x", "Infra"))
    with pytest.raises(Fenced, match="fence has moved to 2"):
        await news
    with pytest.raises(Fenced):
        runner.control()
    with pytest.raises(Fenced):
        await runner.append(commit(), totals())


async def test_an_idle_owner_notices_that_the_store_went_back(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active(lease_ttl_ms=SHORT)
    await runner.append(commit(), totals())
    news = asyncio.ensure_future(runner.control_changed(claim.control))
    sql.execute("UPDATE agentrun.run SET seq = 1 WHERE run_uid = %s", (claim.run_uid,))
    with pytest.raises(StoreRegressed, match="at 1, it had acknowledged 2"):
        await news


async def test_the_age_counts_from_before_the_sending(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that goes on while the machine sleeps, and every reading of it is later."""
    now = [1000.0]

    def clock() -> float:
        now[0] += 1
        return now[0]

    sent: list[float] = []
    execute = Wire.execute

    def noted(self: Wire, *arguments: Any) -> Any:
        sent.append(now[0])
        now[0] += 5
        return execute(self, *arguments)

    monkeypatch.setattr(Wire, "execute", noted)
    runner, _ = await world.active(options={"ambient": Ambient(clock=clock)})
    answered = runner._engine.lease.answered
    assert answered is not None
    assert answered <= sent[0]
    assert runner.lease_age() > 5
    await runner.append(commit(), totals())
    assert answered < (runner._engine.lease.answered or 0.0) <= sent[-1]


async def test_ages_are_zero_when_there_is_nothing_to_wait_for(world: World) -> None:
    row, secret = await world.minted()
    runner = world.runner(row, secret)
    assert (runner.lease_age(), runner.uncommitted_age()) == (0.0, 0.0)
    await runner.claim()
    await runner.append(commit(), totals())
    assert runner.uncommitted_age() == 0.0


def test_the_clock_counts_suspend() -> None:
    first = boottime()
    assert boottime() >= first


async def test_h55_an_idle_runner_holds_no_connection(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active(options={"idle_seconds": 0.05})
    name = f"agentrun {claim.run_uid}/1"

    def connections() -> int:
        row = sql.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (name,)
        ).fetchone()
        return int(row[0]) if row else 0

    await eventually(lambda: connections() == 0, "it is closed")
    pending = [asyncio.ensure_future(runner.append(commit(), totals())) for _ in range(50)]
    while not all(task.done() for task in pending):
        assert connections() <= 1
        await asyncio.sleep(0)
    await eventually(lambda: connections() == 0, "it is closed again")
    assert await runner.append(commit(), totals()) == 52


async def test_a_suspended_run_costs_no_connection_no_query_and_no_write(
    world: World, proxy: Proxy, sql: psycopg.Connection
) -> None:
    options = {"idle_seconds": 0.05, "dsn": proxy.client_dsn}
    row = await world.suspended(1, lease_ttl_ms=SHORT, options=options)
    proxy.forget()
    look = "SELECT xmin, ctid::text FROM agentrun.run WHERE run_uid = %s"
    before = sql.execute(look, (row.run_uid,)).fetchone()
    runner = world.runners[-1]
    await eventually(lambda: runner.lease_age() > SHORT / 1000, "renewals would have been due")
    await eventually(lambda: runner._engine.wire.connection is None, "the connection is closed")
    assert sql.execute(look, (row.run_uid,)).fetchone() == before
    assert proxy.round_trips == 0
