"""Minting: each reason is checked again on the locked row (H16, H60, H65, H68)."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace

import psycopg
import pytest

from agentrun.store.port import AttemptEnd, Seen
from agentrun.store.rows import Budgets, Requested, RunRow, RunState, TotalsRow

from .world import OBJECT, SUCCEEDED, SUSPENDED, World, commit, seen, totals

Sql = psycopg.Connection
REASONS = ["start", "lease-expired", "ended", "gone", "terminating", "charged", "resumed"]


async def mint(world: World, row: RunRow, because: str, **changes: object) -> RunRow | None:
    end = None if because in {"start", "charged", "resumed"} else AttemptEnd("Ended", "Infra", 1)
    return await world.operator.mint(
        seen(row, **changes), because, world.attempt(secrets.token_bytes(32), "pod-next"), end
    )


async def pending(world: World, sql: Sql) -> RunRow:
    return await world.pending()


async def unclaimed(world: World, sql: Sql) -> RunRow:
    return (await world.minted())[0]


async def claimed(world: World, sql: Sql) -> RunRow:
    _, claim = await world.active()
    return await world.row(claim.run_uid)


async def expired(world: World, sql: Sql) -> RunRow:
    row = await claimed(world, sql)
    world.expire(sql, row.run_uid)
    return await world.row(row.run_uid)


async def charged(world: World, sql: Sql) -> RunRow:
    row = await claimed(world, sql)
    after = await world.operator.charge(seen(row), AttemptEnd("AppError", "App", 1), 0)
    assert after is not None
    return after


async def backing_off(world: World, sql: Sql) -> RunRow:
    row = await claimed(world, sql)
    after = await world.operator.charge(seen(row), AttemptEnd("AppError", "App", 1), 3_600_000)
    assert after is not None
    return after


async def suspended(world: World, sql: Sql) -> RunRow:
    return await world.suspended(questions=0)


async def asking(world: World, sql: Sql) -> RunRow:
    return await world.suspended(questions=1)


async def waiting(world: World, sql: Sql) -> RunRow:
    runner, claim = await world.active()
    end = replace(SUSPENDED, reason="ModelUnavailable", wait_ms=3_600_000)
    await runner.append(commit("run/suspend"), totals(), end=end)
    return await world.row(claim.run_uid)


async def succeeded(world: World, sql: Sql) -> RunRow:
    runner, claim = await world.active()
    await runner.append(commit("run/end"), totals(), end=SUCCEEDED)
    return await world.row(claim.run_uid)


async def revoked(world: World, sql: Sql) -> RunRow:
    row = await claimed(world, sql)
    after = await world.operator.revoke(row.run_uid, OBJECT, "Deleted")
    assert after is not None
    return after


Scene = Callable[[World, Sql], Awaitable[RunRow]]

MAY: dict[Scene, set[str]] = {
    pending: {"start"},
    unclaimed: {"ended", "terminating"},
    claimed: {"ended", "gone"},
    expired: {"ended", "gone", "lease-expired"},
    charged: {"charged"},
    backing_off: set(),
    suspended: {"resumed"},
    asking: set(),
    waiting: set(),
    succeeded: set(),
    revoked: set(),
}


@pytest.mark.parametrize("because", REASONS)
@pytest.mark.parametrize("scene", MAY, ids=lambda scene: scene.__name__)
async def test_h60_a_reason_mints_where_it_holds_and_nowhere_else(
    world: World, sql: Sql, scene: Scene, because: str
) -> None:
    row = await scene(world, sql)
    minted = await mint(world, row, because)
    assert (minted is not None) is (because in MAY[scene])
    if minted is None:
        after = await world.row(row.run_uid)
        assert (after.state, after.fence, after.seq) == (row.state, row.fence, row.seq)
        return
    assert (minted.state, minted.attempt, minted.fence) == (
        RunState.ACTIVE,
        row.attempt + 1,
        row.fence + 1,
    )
    assert (minted.holder, minted.lease_expires_at, minted.retry_at) == (None, None, None)
    assert minted.seq == row.seq + 1
    assert await mint(world, row, because) is None, "once"


@pytest.mark.parametrize(
    "stale",
    [
        {"object_uid": "another"},
        {"fence": 7},
        {"seq": 7},
        {"state": RunState.SUSPENDED},
        {"holder": None},
        {"holder": "another"},
        {"run_uid": "another"},
    ],
    ids=str,
)
async def test_h60_whatever_was_seen_must_still_be_so(
    world: World, sql: Sql, stale: dict[str, object]
) -> None:
    row = await claimed(world, sql)
    assert await mint(world, row, "ended", **stale) is None
    assert await mint(world, row, "ended") is not None


@pytest.mark.parametrize("requested", [Requested.SUSPEND, Requested.CANCEL])
@pytest.mark.parametrize(
    ("scene", "because"),
    [(pending, "start"), (claimed, "ended"), (charged, "charged"), (suspended, "resumed")],
    ids=["start", "ended", "charged", "resumed"],
)
async def test_h60_nothing_is_minted_unless_the_run_is_wanted(
    world: World, sql: Sql, scene: Scene, because: str, requested: Requested
) -> None:
    row = await scene(world, sql)
    await world.operator.request(row.run_uid, OBJECT, 1, requested, "User", "", Budgets())
    assert await mint(world, row, because) is None


async def test_a_takeover_ends_the_attempt_and_links_to_it(world: World, sql: Sql) -> None:
    row = await expired(world, sql)
    end = AttemptEnd("LeaseExpired", "Infra", None)
    new = world.attempt(secrets.token_bytes(32), "pod-2")
    minted = await world.operator.mint(seen(row), "lease-expired", new, end)
    assert minted is not None
    first, second = minted.attempts
    assert (first.cause, first.fault, first.last_seq) == ("LeaseExpired", "Infra", row.seq)
    assert first.ended_at is not None
    assert (second.continued_from_attempt, second.continued_from_seq) == (1, row.seq)
    assert (second.pod, second.fence, second.trace_id) == ("pod-2", 2, new.trace_id)
    assert (minted.trace_id, minted.span_id) == (new.trace_id, new.span_id)
    assert (minted.infra_faults, minted.app_faults, minted.backoff_step) == (1, 0, 0)
    last = (await world.operator.commits(row.run_uid)).commits[-1]
    assert (last.origin, last.kind, last.fence, last.attempt) == ("O", "attempt/start", 2, 2)


@pytest.mark.parametrize(
    ("fault", "app", "infra"), [("App", 1, 0), ("Infra", 0, 1), ("None", 0, 0)]
)
async def test_h30_h60_a_charge_counts_its_fault_once(
    world: World, sql: Sql, fault: str, app: int, infra: int
) -> None:
    row = await claimed(world, sql)
    end = AttemptEnd("Ended", fault, 137)
    after = await world.operator.charge(seen(row), end, 3_600_000)
    assert after is not None
    assert (after.app_faults, after.infra_faults) == (app, infra)
    assert (after.faults_at_progress, after.backoff_step) == (app, app)
    assert after.state is RunState.ACTIVE
    assert after.fence == row.fence, "an end is no change of ownership"
    assert after.retry_at is not None
    assert after.retry_at > after.db_now
    assert after.active_since is None
    assert await world.operator.charge(seen(row), end, 0) is None, "once"
    assert await mint(world, after, "ended") is None, "it has ended already"


async def test_h60_charge_only_in_active_and_only_what_was_seen(world: World, sql: Sql) -> None:
    for scene in (pending, suspended, succeeded, revoked):
        row = await scene(world, sql)
        assert await world.operator.charge(seen(row), AttemptEnd("x", "App"), 0) is None
    row = await claimed(world, sql)
    for stale in ({"fence": 0}, {"seq": 0}, {"holder": "another"}, {"object_uid": "x"}):
        was = replace(seen(row), **stale)  # type: ignore[arg-type]
        assert await world.operator.charge(was, AttemptEnd("x", "App"), 0) is None


async def test_h60_an_end_by_lease_needs_the_lease_still_expired(world: World, sql: Sql) -> None:
    row = await expired(world, sql)
    end = AttemptEnd("LeaseExpired", "Infra")
    sql.execute(
        "UPDATE agentrun.run SET lease_expires_at = clock_timestamp() + interval '1 hour'"
        " WHERE run_uid = %s",
        (row.run_uid,),
    )
    operator, was = world.operator, seen(row)
    assert await operator.charge(was, end, 0) is None
    assert await operator.finish(was, RunState.FAILED, "x", "", 0, b"", end) is None
    await operator.request(row.run_uid, OBJECT, 1, Requested.SUSPEND, "User", "", Budgets())
    assert await operator.suspend(was, "x", "", 0, b"", end) is None
    world.expire(sql, row.run_uid)
    assert await operator.suspend(was, "x", "", 0, b"", end) is not None


async def test_a_charged_unclaimed_pod_cannot_claim_any_more(world: World, sql: Sql) -> None:
    from agentrun.errors import StoreRefused

    row, secret = await world.minted()
    assert await world.operator.charge(seen(row), AttemptEnd("Ended", "App", 1), 0) is not None
    with pytest.raises(StoreRefused):
        await world.runner(row, secret).claim()


@pytest.mark.parametrize(
    ("used", "budgets", "may"),
    [
        (TotalsRow(turns=3), Budgets(turns=3), False),
        (TotalsRow(turns=3), Budgets(turns=4), True),
        (TotalsRow(input_tokens=5, cache_write_tokens=5), Budgets(tokens=10), False),
        (TotalsRow(input_tokens=5, cache_write_tokens=4), Budgets(tokens=10), True),
        (TotalsRow(cost=9), Budgets(cost=9), False),
        (TotalsRow(cost=9), Budgets(cost=10), True),
        (TotalsRow(turns=1), Budgets(active_seconds=0), False),
        (TotalsRow(turns=9, cost=9), Budgets(), True),
    ],
)
async def test_h68_a_spent_budget_is_not_resumed_until_it_is_raised(
    world: World, used: TotalsRow, budgets: Budgets, may: bool
) -> None:
    runner, claim = await world.active()
    end = replace(SUSPENDED, reason="BudgetExceeded")
    await runner.append(commit("run/suspend"), used, end=end)
    row = await world.operator.request(claim.run_uid, OBJECT, 2, Requested.RUN, "", "", budgets)
    assert row is not None
    minted = await mint(world, row, "resumed")
    assert (minted is not None) is may


async def test_a_spent_budget_does_not_keep_an_answered_question_waiting(world: World) -> None:
    row = await world.suspended(questions=1, budgets=Budgets(turns=1))
    after = await world.decide(row)
    assert after is not None
    assert after.state is RunState.ACTIVE


async def test_active_time_is_added_up_over_attempts(world: World, sql: Sql) -> None:
    row = await claimed(world, sql)
    ago = "UPDATE agentrun.run SET active_since = clock_timestamp() - interval '10 s'"
    sql.execute(f"{ago} WHERE run_uid = %s", (row.run_uid,))
    minted = await mint(world, row, "ended")
    assert minted is not None
    assert 10_000 <= minted.active_ms < 20_000
    assert minted.active_since is None
    secret = secrets.token_bytes(32)
    row = (
        await world.operator.add_secret(seen(minted), world.attempt(secret).secret_hash)
    ) or minted
    runner = world.runner(row, secret, holder="pod-2")
    claim = await runner.claim()
    assert claim.active_ms == minted.active_ms
    sql.execute(f"{ago} WHERE run_uid = %s", (row.run_uid,))
    await runner.append(commit("run/end"), totals(), end=SUCCEEDED)
    assert 20_000 <= (await world.row(row.run_uid)).active_ms < 40_000


async def test_a_dead_owner_was_active_until_its_lease_ran_out(world: World, sql: Sql) -> None:
    row = await claimed(world, sql)
    sql.execute(
        "UPDATE agentrun.run SET active_since = clock_timestamp() - interval '1 hour',"
        " lease_expires_at = clock_timestamp() - interval '59 min' WHERE run_uid = %s",
        (row.run_uid,),
    )
    minted = await mint(world, row, "lease-expired")
    assert minted is not None
    assert minted.active_ms == pytest.approx(60_000, abs=5_000)


# add_secret


async def test_h65_a_secret_is_added_without_moving_the_fence(world: World, sql: Sql) -> None:
    row, _ = await world.minted()
    for _ in range(3):
        after = await world.operator.add_secret(seen(row), secrets.token_bytes(32))
        assert after is not None
        assert (after.fence, after.attempt, after.seq) == (row.fence, row.attempt, row.seq)


@pytest.mark.parametrize(
    "scene", [pending, claimed, charged, suspended, succeeded, revoked], ids=lambda s: s.__name__
)
async def test_h65_no_secret_is_added_but_to_an_unclaimed_fence(
    world: World, sql: Sql, scene: Scene
) -> None:
    row = await scene(world, sql)
    was = Seen(row.run_uid, row.object_uid, row.fence, row.seq, row.state, None)
    assert await world.operator.add_secret(was, secrets.token_bytes(32)) is None


async def test_h65_no_secret_is_added_to_an_attempt_that_ended_unclaimed(world: World) -> None:
    row, _ = await world.minted()
    after = await world.operator.charge(seen(row), AttemptEnd("Ended", "App", 1), 3_600_000)
    assert after is not None
    assert await world.operator.add_secret(seen(after), secrets.token_bytes(32)) is None


async def test_h65_no_secret_is_added_for_an_old_sight_or_an_unwanted_run(
    world: World, sql: Sql
) -> None:
    row, _ = await world.minted()
    assert await world.operator.add_secret(seen(row, fence=0), b"s" * 32) is None
    assert await world.operator.add_secret(seen(row, object_uid="x"), b"s" * 32) is None
    await world.operator.request(row.run_uid, OBJECT, 1, Requested.SUSPEND, "", "", Budgets())
    assert await world.operator.add_secret(seen(row), b"s" * 32) is None


async def test_h25_secrets_are_forgotten_once_they_are_of_no_use(world: World, sql: Sql) -> None:
    row, secret = await world.minted()
    count = "SELECT count(*) FROM agentrun.attempt_secret WHERE run_uid = %s"
    await world.operator.purge_secrets(row.run_uid)
    assert sql.execute(count, (row.run_uid,)).fetchone() == (1,), "still needed"
    sql.execute("INSERT INTO agentrun.attempt_secret VALUES (%s, 0, %s)", (row.run_uid, b"o" * 32))
    await world.operator.purge_secrets(row.run_uid)
    assert sql.execute(count, (row.run_uid,)).fetchone() == (1,), "older fences go"
    await world.runner(row, secret).claim()
    assert sql.execute(count, (row.run_uid,)).fetchone() == (0,), "the claim voids the rest"
