"""Becoming the owner of a run, and every way of not becoming it."""

from __future__ import annotations

import secrets
from dataclasses import replace

import psycopg
import pytest

from agentrun.errors import Fenced, StoreRefused, StoreRegressed
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import Budgets, Requested, RunState

from .world import OBJECT, SUCCEEDED, SUSPENDED, World, commit, seen, totals


async def test_a_claim_tells_everything_the_attempt_needs(world: World) -> None:
    budgets = Budgets(turns=5, tokens=1000, cost=7, active_seconds=60)
    row, secret = await world.minted(budgets=budgets)
    claim = await world.runner(row, secret, holder="pod-uid", node="n1").claim()
    assert (claim.run_uid, claim.object_uid, claim.name) == (row.run_uid, OBJECT, "incident")
    assert (claim.spec, claim.spec_hash) == (b'{"prompt":"look"}', "5pec")
    assert (claim.attempt, claim.fence, claim.seq, claim.snapshot_seq) == (1, 1, 1, 0)
    assert (claim.trace_id, claim.span_id) == (row.trace_id, row.span_id)
    assert claim.control.budgets == budgets
    assert claim.control.requested is Requested.RUN
    after = await world.row(row.run_uid)
    assert after.holder == "pod-uid"
    assert not after.lease_expired
    attempt = after.attempts[-1]
    assert (attempt.pod_uid, attempt.node) == ("pod-uid", "n1")
    assert attempt.claimed_at == after.active_since


async def test_h17_the_same_process_may_repeat_its_claim(world: World) -> None:
    row, secret = await world.minted()
    runner = world.runner(row, secret)
    assert await runner.claim() == await runner.claim()


async def test_h61_a_run_that_is_not_active_is_claimed_by_nobody(world: World) -> None:
    """Not even again by the process that suspended it: its lease would begin anew."""
    row, secret = await world.minted()
    same = {"holder": "pod-uid", "nonce": "nonce"}
    runner = world.runner(row, secret, **same)
    await runner.claim()
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    with pytest.raises(Fenced, match="not active"):
        await world.runner(row, secret, **same).claim()


async def test_h17_another_process_of_the_same_pod_may_not(world: World) -> None:
    row, secret = await world.minted()
    await world.runner(row, secret, holder="pod-uid").claim()
    with pytest.raises(Fenced, match="another process holds"):
        await world.runner(row, secret, holder="pod-uid").claim()


async def test_h17_the_nonce_is_good_for_its_holder_only(world: World) -> None:
    row, secret = await world.minted()
    await world.runner(row, secret, holder="a", nonce="same").claim()
    with pytest.raises(Fenced, match="another process holds"):
        await world.runner(row, secret, holder="b", nonce="same").claim()


async def test_h17_release_lets_nobody_claim_again(world: World, sql: psycopg.Connection) -> None:
    row, secret = await world.minted()
    runner = world.runner(row, secret)
    await runner.claim()
    await runner.release()
    released = await world.row(row.run_uid)
    assert released.holder is not None
    assert released.lease_expired
    with pytest.raises(Fenced, match="another process holds"):
        await world.runner(row, secret, holder="second").claim()


async def test_h18_the_secret_of_another_attempt_is_refused(world: World) -> None:
    row, _ = await world.minted()
    with pytest.raises(StoreRefused, match="secret was not issued"):
        await world.runner(row, secrets.token_bytes(32)).claim()
    assert (await world.row(row.run_uid)).holder is None


async def test_h18_the_old_secret_does_not_open_the_next_fence(
    world: World, sql: psycopg.Connection
) -> None:
    row, old = await world.minted()
    runner = world.runner(row, old)
    await runner.claim()
    world.expire(sql, row.run_uid)
    row = await world.row(row.run_uid)
    new = await world.operator.mint(
        seen(row), "lease-expired", world.attempt(secrets.token_bytes(32)), None
    )
    assert new is not None
    with pytest.raises(StoreRefused, match="secret was not issued"):
        await world.runner(new, old, holder="zombie").claim()


async def test_h18_a_secret_counts_for_its_own_fence_only(
    world: World, sql: psycopg.Connection
) -> None:
    row, secret = await world.minted()
    sql.execute("UPDATE agentrun.attempt_secret SET fence = 0 WHERE run_uid = %s", (row.run_uid,))
    with pytest.raises(StoreRefused, match="secret was not issued"):
        await world.runner(row, secret).claim()


async def test_h46_a_stranger_cannot_hold_a_lock_on_somebodys_run(world: World) -> None:
    row, secret = await world.minted()
    owner = world.runner(row, secret)
    await owner.claim()
    with psycopg.connect(world.postgres.runner_dsn) as stranger:
        for fence in (0, 1, 2):
            stranger.execute(
                "SELECT agentrun.claim_v1(%s, %s, 'guess', 'me', 'n', NULL),"
                " agentrun.renew_v1(%s, %s, 'guess')",
                (row.run_uid, fence) * 2,
            )
        assert await owner.append(commit(), totals()) == 2, (
            "while the stranger's transaction is open"
        )


async def test_h50_another_database_does_not_know_the_run(world: World) -> None:
    """A squatter's Secret may lead the runner elsewhere: there is nothing to claim there."""
    row, secret = await world.minted()
    elsewhere = replace(row, run_uid="somebody-elses")
    with pytest.raises(StoreRegressed):
        await world.runner(elsewhere, secret).claim()


async def test_an_older_fence_is_told_that_it_is_fenced(
    world: World, sql: psycopg.Connection
) -> None:
    row, secret = await world.minted()
    end = AttemptEnd("PodDeleted", "None")
    next_secret = secrets.token_bytes(32)
    assert await world.operator.mint(seen(row), "terminating", world.attempt(next_secret), end)
    with pytest.raises(Fenced, match="fence has moved to 2"):
        await world.runner(row, secret).claim()


async def test_a_run_that_is_over_cannot_be_claimed(world: World) -> None:
    row, secret = await world.minted()
    runner = world.runner(row, secret)
    await runner.claim()
    await runner.append(commit("run/end"), totals(), end=SUCCEEDED)
    with pytest.raises(Fenced, match="not active"):
        await world.runner(row, secret, holder="late").claim()


async def test_a_store_that_forgot_the_mint_has_regressed(
    world: World, sql: psycopg.Connection
) -> None:
    row, secret = await world.minted()
    sql.execute("UPDATE agentrun.run SET fence = 0 WHERE run_uid = %s", (row.run_uid,))
    with pytest.raises(StoreRegressed):
        await world.runner(row, secret).claim()
    sql.execute("DELETE FROM agentrun.run WHERE run_uid = %s", (row.run_uid,))
    with pytest.raises(StoreRegressed):
        await world.runner(row, secret).claim()


async def test_h25_any_secret_of_the_fence_may_claim_and_the_claim_voids_the_rest(
    world: World,
) -> None:
    row, first = await world.minted()
    second = secrets.token_bytes(32)
    added = await world.operator.add_secret(seen(row), world.attempt(second).secret_hash)
    assert added is not None
    assert added.fence == row.fence
    winner = world.runner(row, second, holder="b")
    await winner.claim()
    with pytest.raises(Fenced, match="another process holds"):
        await world.runner(row, first, holder="a").claim()
    assert await winner.append(commit(), totals()) == 2
    assert await world.operator.add_secret(seen(row), b"x" * 32) is None, "it is claimed now"


async def test_h16_an_unclaimed_lease_never_expires(world: World) -> None:
    row, _ = await world.minted(lease_ttl_ms=1)
    assert row.state is RunState.ACTIVE
    assert row.lease_expires_at is None
    assert not row.lease_expired
    secret = secrets.token_bytes(32)
    assert (
        await world.operator.mint(seen(row), "lease-expired", world.attempt(secret), None) is None
    )
