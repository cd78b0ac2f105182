"""What the operator writes about a run: outcomes, suspension, revocation, wishes (H61, H63, H64)."""

from __future__ import annotations

from typing import LiteralString

import psycopg
import pytest

from agentrun.errors import Fenced, SchemaMismatch, StoreRefused
from agentrun.store.operator_store import SQL
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import Budgets, Requested, RunRow, RunState

from .world import OBJECT, SUCCEEDED, SUSPENDED, World, commit, question, seen, totals

TERMINAL = [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.REJECTED]
END = AttemptEnd("NotSettled", "None")


async def wish(world: World, row: RunRow, requested: Requested, generation: int = 1) -> RunRow:
    after = await world.operator.request(
        row.run_uid, OBJECT, generation, requested, "User", "bob", Budgets()
    )
    assert after is not None
    return after


async def finish(world: World, row: RunRow, state: RunState, **changes: object) -> RunRow | None:
    return await world.operator.finish(
        seen(row, **changes), state, "Reason", "message", 0, b"end", END
    )


async def test_h61_an_outcome_raises_the_fence_and_ends_everything(world: World) -> None:
    runner, claim = await world.active()
    row = await wish(world, await world.row(claim.run_uid), Requested.CANCEL)
    after = await finish(world, row, RunState.CANCELLED)
    assert after is not None
    assert (after.state, after.reason, after.message) == (RunState.CANCELLED, "Reason", "message")
    assert (after.fence, after.attempt) == (row.fence + 1, row.attempt)
    assert after.holder is None
    assert after.finished_at is not None
    assert (after.attempts[-1].cause, after.attempts[-1].fault) == ("NotSettled", "None")
    last = (await world.operator.commits(row.run_uid)).commits[-1]
    assert (last.origin, last.kind, last.body) == ("O", "run/end", b"end")
    with pytest.raises(Fenced):
        await runner.append(commit(), totals())
    with pytest.raises(Fenced):
        await runner.control_changed(claim.control)


async def test_a_cancelled_run_is_not_waited_for(world: World) -> None:
    """A run that goes on committing after its cancel must not outrun the operator's outcome."""
    runner, claim = await world.active()
    row = await wish(world, await world.row(claim.run_uid), Requested.CANCEL)
    await runner.append(commit(), totals())
    assert await finish(world, row, RunState.CANCELLED) is not None


async def test_h60_cancelled_needs_a_cancel(world: World) -> None:
    _, claim = await world.active()
    row = await world.row(claim.run_uid)
    assert await finish(world, row, RunState.CANCELLED) is None
    row = await wish(world, row, Requested.SUSPEND)
    assert await finish(world, row, RunState.CANCELLED) is None


async def test_h60_a_commit_in_between_voids_an_outcome_that_nobody_asked_for(
    world: World,
) -> None:
    runner, claim = await world.active()
    row = await world.row(claim.run_uid)
    await runner.append(commit(), totals())
    assert await finish(world, row, RunState.FAILED) is None
    assert await finish(world, await world.row(claim.run_uid), RunState.FAILED) is not None


@pytest.mark.parametrize("stale", [{"fence": 9}, {"holder": None}, {"object_uid": "x"}], ids=str)
async def test_h60_an_outcome_is_for_what_was_seen(world: World, stale: dict[str, object]) -> None:
    _, claim = await world.active()
    row = await wish(world, await world.row(claim.run_uid), Requested.CANCEL)
    assert await finish(world, row, RunState.CANCELLED, **stale) is None


@pytest.mark.parametrize("state", [RunState.SUSPENDED, RunState.ACTIVE, RunState.REVOKED])
async def test_only_an_outcome_is_one(world: World, state: RunState) -> None:
    row = await world.pending()
    with pytest.raises(StoreRefused, match="not an outcome"):
        await finish(world, row, state)


@pytest.mark.parametrize("state", TERMINAL)
async def test_a_run_that_never_started_can_be_finished(world: World, state: RunState) -> None:
    row = await wish(world, await world.pending(), Requested.CANCEL)
    after = await finish(world, row, state)
    assert after is not None
    assert (after.state, after.fence, after.attempt) == (state, 1, 0)


async def test_h60_terminal_rows_match_nothing(world: World) -> None:
    for state in TERMINAL:
        row = await finish(world, await wish(world, await world.pending(), Requested.CANCEL), state)
        assert row is not None
        operator, was = world.operator, seen(row)
        assert await finish(world, row, RunState.FAILED) is None
        assert await operator.suspend(was, "", "", 0, b"", None) is None
        assert await operator.charge(was, END, 0) is None
        assert await operator.revoke(row.run_uid, OBJECT, "Deleted") is None
        asked = (row.run_uid, OBJECT, 9, Requested.RUN, "", "", Budgets())
        assert await operator.request(*asked) is None
        assert (await world.row(row.run_uid)).state is state


async def test_h61_suspension_by_the_operator_raises_the_fence(world: World) -> None:
    runner, claim = await world.active()
    row = await wish(world, await world.row(claim.run_uid), Requested.SUSPEND)
    await runner.append(commit(), totals())
    after = await world.operator.suspend(seen(row), "SuspendedByUser", "m", 0, b"s", END)
    assert after is not None
    assert (after.state, after.reason, after.fence) == (RunState.SUSPENDED, "SuspendedByUser", 2)
    assert after.suspended_at is not None
    assert after.finished_at is None
    last = (await world.operator.commits(row.run_uid)).commits[-1]
    assert (last.origin, last.kind, last.fence) == ("O", "run/suspend", 2)
    with pytest.raises(Fenced):
        await runner.append(commit(), totals())


async def test_h60_suspension_only_while_it_is_wanted_and_only_in_active(world: World) -> None:
    _, claim = await world.active()
    row = await world.row(claim.run_uid)
    assert await world.operator.suspend(seen(row), "", "", 0, b"", None) is None
    row = await wish(world, row, Requested.CANCEL)
    assert await world.operator.suspend(seen(row), "", "", 0, b"", None) is None
    row = await wish(world, await world.pending(), Requested.SUSPEND)
    assert await world.operator.suspend(seen(row), "", "", 0, b"", None) is None
    row = await wish(world, await world.suspended(0), Requested.SUSPEND)
    assert await world.operator.suspend(seen(row), "", "", 0, b"", None) is None


async def test_h61_revocation_stops_the_owner_and_writes_no_outcome(world: World) -> None:
    runner, claim = await world.active()
    before = await world.row(claim.run_uid)
    after = await world.operator.revoke(claim.run_uid, OBJECT, "Deleted")
    assert after is not None
    assert (after.state, after.reason, after.fence) == (RunState.REVOKED, "Deleted", 2)
    assert after.seq == before.seq
    with pytest.raises(Fenced):
        await runner.append(commit(), totals())


async def test_h64_an_old_objects_deletion_revokes_nothing(world: World) -> None:
    row = await world.pending()
    assert await world.operator.revoke(row.run_uid, "older-object", "Deleted") is None
    assert (await world.row(row.run_uid)).state is RunState.PENDING


async def test_revocation_closes_questions(world: World, sql: psycopg.Connection) -> None:
    row = await world.suspended(2)
    assert await world.operator.revoke(row.run_uid, OBJECT, "Deleted") is not None
    states = sql.execute(
        "SELECT DISTINCT state FROM agentrun.approval WHERE run_uid = %s", (row.run_uid,)
    ).fetchall()
    assert states == [("Closed",)]
    assert await world.decide(row) is None


# What is wanted


async def test_h63_an_older_generation_undoes_nothing(world: World) -> None:
    row = await world.pending(generation=4)
    row = await wish(world, row, Requested.SUSPEND, generation=5)
    older = (row.run_uid, OBJECT, 4, Requested.RUN, "", "", Budgets())
    assert await world.operator.request(*older) is None
    assert (await world.row(row.run_uid)).requested is Requested.SUSPEND
    row = await wish(world, row, Requested.RUN, generation=5)
    assert (row.requested, row.generation) == (Requested.RUN, 5)


async def test_h27_cancel_latches_while_budgets_still_change(world: World) -> None:
    row = await wish(world, await world.pending(), Requested.CANCEL, generation=2)
    budgets = Budgets(turns=9)
    after = await world.operator.request(row.run_uid, OBJECT, 3, Requested.RUN, "", "eve", budgets)
    assert after is not None
    assert (after.requested, after.requested_reason, after.requested_by) == (
        Requested.CANCEL,
        "User",
        "bob",
    )
    assert (after.budgets, after.generation) == (budgets, 3)


async def test_h64_another_object_wants_nothing_of_this_run(world: World) -> None:
    row = await world.pending()
    asked = (row.run_uid, "another", 9, Requested.CANCEL, "", "", Budgets())
    assert await world.operator.request(*asked) is None


async def test_a_wish_that_does_not_exist_is_refused(world: World, sql: psycopg.Connection) -> None:
    row = await world.pending()
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.execute("UPDATE agentrun.run SET requested = 'x' WHERE run_uid = %s", (row.run_uid,))
    with pytest.raises(psycopg.errors.CheckViolation):
        sql.execute("UPDATE agentrun.run SET state = 'x' WHERE run_uid = %s", (row.run_uid,))


# Opening, polling, health


async def test_opening_twice_keeps_what_was_captured_first(world: World) -> None:
    new = world.new_run()
    row = await world.operator.open_run(new)
    assert (row.state, row.attempt, row.fence, row.seq) == (RunState.PENDING, 0, 0, 0)
    assert row.created_at <= row.db_now
    other = world.new_run(run_uid=new.run_uid, spec=b"forced", spec_hash="0ther", object_uid="b")
    again = await world.operator.open_run(other)
    assert (again.spec, again.spec_hash, again.object_uid) == (new.spec, new.spec_hash, OBJECT)


@pytest.mark.parametrize("uid", ["a|b", "", "x" * 65, "ü"])
async def test_an_identity_that_could_confuse_the_chain_is_refused(world: World, uid: str) -> None:
    with pytest.raises(StoreRefused):
        await world.pending(run_uid=uid)


async def test_the_poll_sees_active_runs_of_its_installation_only(world: World) -> None:
    assert await world.operator.live(world.installation) == ()
    row, _ = await world.minted()
    await world.pending()
    await world.suspended(1)
    await world.minted(installation="another")
    (live,) = await world.operator.live(world.installation)
    assert (live.run_uid, live.state, live.spec, live.attempts) == (
        row.run_uid,
        RunState.ACTIVE,
        b"",
        (),
    )


async def test_the_poll_sees_a_question_until_it_has_an_object(world: World) -> None:
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    await runner.append(commit("approval/request", approvals=(asked,)), totals())
    assert [row.unasked for row in await world.operator.live(world.installation)] == [True]
    assert await world.operator.bind_approval(claim.run_uid, asked.id, "object", None)
    assert [row.unasked for row in await world.operator.live(world.installation)] == [False]


async def test_the_sweep_sees_what_is_not_over_of_its_installation_only(
    world: World, sql: psycopg.Connection
) -> None:
    active, _ = await world.minted()
    waits = await world.pending()
    asks = await world.suspended(1)
    over, _ = await world.minted()
    await world.minted(installation="another")
    assert await world.operator.revoke(over.run_uid, over.object_uid, "Deleted")
    found = await world.operator.unfinished(world.installation)
    assert {row.run_uid for row in found} == {active.run_uid, waits.run_uid, asks.run_uid}
    assert {row.spec for row in found} == {b""}


@pytest.mark.parametrize("query", ["live", "unfinished"])
async def test_neither_reads_runs_that_are_over(
    world: World, sql: psycopg.Connection, query: LiteralString
) -> None:
    await world.minted()
    with sql.transaction():
        sql.execute("SET LOCAL enable_seqscan = off")
        asked = SQL[query].replace("%(installation)s", "'x'")
        plan = sql.execute(f"EXPLAIN {asked}").fetchall()
    assert "run_unfinished" in str(plan)


async def test_no_such_run(world: World) -> None:
    assert await world.operator.run("nobody") is None
    assert (await world.operator.commits("nobody")).commits == ()


async def test_only_the_last_ten_attempts_are_read(world: World) -> None:
    row, _ = await world.minted()
    for number in range(2, 14):
        new = world.attempt(b"%d" % number, f"pod-{number}")
        minted = await world.operator.mint(seen(row), "terminating", new, AttemptEnd("x", "None"))
        assert minted is not None
        row = minted
    assert [a.attempt for a in row.attempts] == list(range(4, 14))


async def test_ping_refuses_an_older_schema(world: World, sql: psycopg.Connection) -> None:
    await world.operator.ping()
    sql.execute("UPDATE agentrun.schema_version SET version = -version")
    try:
        with pytest.raises(SchemaMismatch, match="agentrun migrate"):
            await world.operator.ping()
    finally:
        sql.execute("UPDATE agentrun.schema_version SET version = -version")


async def test_the_pods_own_last_word_wins_over_what_comes_later(world: World) -> None:
    runner, claim = await world.active()
    row = await wish(world, await world.row(claim.run_uid), Requested.CANCEL)
    await runner.append(commit("run/end"), totals(), end=SUCCEEDED)
    assert await finish(world, row, RunState.CANCELLED) is None
    assert (await world.row(claim.run_uid)).state is RunState.SUCCEEDED


async def test_a_suspended_run_can_be_cancelled(world: World) -> None:
    runner, claim = await world.active()
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    row = await wish(world, await world.row(claim.run_uid), Requested.CANCEL)
    after = await finish(world, row, RunState.CANCELLED)
    assert after is not None
    assert after.attempts[-1].cause == "Suspended", "it had ended before"
