"""Statements whose answer never came: landed, not landed, and landing late (H17, H69)."""

from __future__ import annotations

import asyncio
import secrets

import psycopg
import pytest

from agentrun.errors import Fenced, StoreRegressed, StoreUnavailable
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import RunRow, RunState

from .proxy import Proxy
from .world import SUSPENDED, World, commit, eventually, question, seen, totals

APPEND = b"append"


async def bodies(world: World, run_uid: str) -> list[bytes]:
    """What the runner's commits hold, in order."""
    commits = (await world.operator.commits(run_uid)).commits
    return [c.body for c in commits if c.origin == "R"]


async def test_h17_a_claim_whose_answer_was_lost_is_repeated(world: World, proxy: Proxy) -> None:
    row, secret = await world.minted()
    proxy.rule("lose-answer", b"claim_v1")
    claim = await world.runner(row, secret, dsn=proxy.client_dsn).claim()
    assert claim.seq == 1
    assert sum(b"claim_v1" in b for b in proxy.batches) == 2


@pytest.mark.parametrize("action", ["lose-answer", "lose-request"])
async def test_h69_a_lost_append_lands_exactly_once(
    world: World, proxy: Proxy, action: str
) -> None:
    runner, claim = await world.active(options={"dsn": proxy.client_dsn})
    for number in range(20):
        proxy.rule(action, APPEND)
        assert await runner.append(commit(body=b"%d" % number), totals()) == number + 2
    assert await bodies(world, claim.run_uid) == [b"%d" % n for n in range(20)]


@pytest.mark.parametrize("action", ["lose-answer", "lose-request"])
async def test_h69_a_lost_group_lands_once_and_the_rest_is_rebased(
    world: World, proxy: Proxy, action: str
) -> None:
    runner, claim = await world.active(options={"dsn": proxy.client_dsn})
    proxy.rule(action, APPEND, times=3)
    seqs = await asyncio.gather(
        *(runner.append(commit(body=b"%d" % n), totals()) for n in range(100))
    )
    assert seqs == list(range(2, 102))
    assert await bodies(world, claim.run_uid) == [b"%d" % n for n in range(100)]


async def test_h69_a_statement_that_lands_late_is_recognised(world: World, proxy: Proxy) -> None:
    """The first try is stuck on the way; the runner tries again; the first one lands between."""
    runner, claim = await world.active(options={"dsn": proxy.client_dsn})
    proxy.rule("delay", APPEND)
    proxy.rule("lose-request", APPEND, times=1_000)
    waiting = asyncio.ensure_future(runner.append(commit(body=b"first"), totals()))
    await eventually(lambda: len(proxy.delayed) == 1, "the first try is on its way")
    other = asyncio.ensure_future(runner.append(commit(body=b"second"), totals()))
    await asyncio.to_thread(proxy.deliver)
    proxy.rules.clear()
    assert await asyncio.gather(waiting, other) == [2, 3]
    assert await bodies(world, claim.run_uid) == [b"first", b"second"]


async def test_h69_a_statement_that_comes_too_late_changes_nothing(
    world: World, proxy: Proxy
) -> None:
    runner, claim = await world.active(options={"dsn": proxy.client_dsn})
    proxy.rule("delay", APPEND)
    assert await runner.append(commit(body=b"once"), totals()) == 2
    assert await runner.append(commit(body=b"next"), totals()) == 3
    await asyncio.to_thread(proxy.deliver)
    assert await bodies(world, claim.run_uid) == [b"once", b"next"]
    assert await runner.append(commit(body=b"last"), totals()) == 4


async def test_h69_a_lost_suspension_and_a_decision_that_moves_the_row(
    world: World, proxy: Proxy
) -> None:
    """The answer to Suspended is lost, a decision is recorded on top of it: seq and fence are not
    what the runner expects, and yet its commit has landed. No false StoreRegressed."""
    for mint in (False, True):
        runner, claim = await world.active(options={"dsn": proxy.client_dsn})
        asked = question(claim.run_uid)
        await runner.append(commit("approval/request", approvals=(asked,)), totals())
        assert await world.operator.bind_approval(claim.run_uid, asked.id, "object", None)
        proxy.rule("lose-answer", b"append_group")
        retries = proxy.rule("lose-request", b"append_group", times=1_000_000)
        last = asyncio.ensure_future(runner.append(commit("run/suspend"), totals(), end=SUSPENDED))

        async def suspended(uid: str = claim.run_uid) -> bool:
            return (await world.row(uid)).state is RunState.SUSPENDED

        await eventually(suspended, "it landed")
        after = await world.decide(await world.row(claim.run_uid), mint=mint)
        assert after is not None
        assert after.fence == (2 if mint else 1)
        retries.times = 0
        assert await last == 3


async def test_a_takeover_in_between_is_told_from_a_landed_commit(
    world: World, proxy: Proxy, sql: psycopg.Connection
) -> None:
    for action, landed in (("lose-answer", True), ("lose-request", False)):
        runner, claim = await world.active(options={"dsn": proxy.client_dsn})
        proxy.rule(action, APPEND)
        retries = proxy.rule("lose-request", APPEND, times=1_000_000)
        waiting = asyncio.ensure_future(runner.append(commit(body=b"mine"), totals()))
        await eventually(lambda rule=retries: rule.times < 1_000_000, "it tries again")  # type: ignore[misc]
        minted: RunRow | None = None
        while minted is None:
            row = await world.row(claim.run_uid)
            new = world.attempt(secrets.token_bytes(32))
            end = AttemptEnd("PodLost", "Infra")
            minted = await world.operator.mint(seen(row), "ended", new, end)
        retries.times = 0
        if landed:
            assert await waiting == 2
        else:
            with pytest.raises(Fenced):
                await waiting
        assert await bodies(world, claim.run_uid) == ([b"mine"] if landed else [])
        with pytest.raises(Fenced):
            await runner.append(commit(), totals())


async def test_a_regression_is_not_taken_for_a_lost_answer(
    world: World, proxy: Proxy, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active(options={"dsn": proxy.client_dsn})
    await runner.append(commit(), totals())
    await runner.append(commit(), totals())
    proxy.rule("lose-request", APPEND)
    sql.execute("UPDATE agentrun.run SET seq = 2 WHERE run_uid = %s", (claim.run_uid,))
    with pytest.raises(StoreRegressed):
        await runner.append(commit(), totals())


async def test_a_renewal_that_sees_the_write_id_settles_a_lost_append(
    world: World, proxy: Proxy
) -> None:
    """The append's retries never get through; the heartbeat does, and its answer is enough."""
    runner, _ = await world.active(lease_ttl_ms=600, options={"dsn": proxy.client_dsn})
    proxy.rule("lose-answer", APPEND)
    retries = proxy.rule("lose-request", APPEND, times=1_000_000)
    assert await runner.append(commit(), totals()) == 2
    retries.times = 0
    assert await runner.append(commit(), totals()) == 3


async def test_other_statements_are_repeated_too(world: World, proxy: Proxy) -> None:
    runner, claim = await world.active(options={"dsn": proxy.client_dsn})
    await runner.append(commit(body=b"x"), totals())
    for text in (b"restore_v1", b"release_v1"):
        proxy.rule("lose-answer", text)
    assert len((await runner.restore()).commits) == 2
    await runner.snapshot(1, 2, 0, b"state")
    await runner.release()
    assert (await world.row(claim.run_uid)).snapshot_seq == 2


async def test_a_snapshot_is_given_up_at_the_first_outage(world: World, proxy: Proxy) -> None:
    runner, _ = await world.active(options={"dsn": proxy.client_dsn})
    proxy.rule("lose-request", b"snapshot_v1")
    with pytest.raises(StoreUnavailable):
        await runner.snapshot(1, 1, 0, b"state")
    await runner.snapshot(1, 1, 0, b"state")


async def test_closing_gives_up_what_waits(world: World, proxy: Proxy) -> None:
    runner, _ = await world.active(options={"dsn": proxy.client_dsn})
    proxy.down = True
    proxy.cut()
    waiting = asyncio.ensure_future(runner.append(commit(), totals()))
    await eventually(lambda: runner._engine._failures > 1, "it notices")
    assert runner.uncommitted_age() > 0
    await runner.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting
    with pytest.raises(StoreUnavailable, match="closed"):
        await runner.append(commit(), totals())
    with pytest.raises(StoreUnavailable, match="closed"):
        await runner.restore()
