"""Consuming decisions: once, in Suspended, for the content that was asked."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest

from agentrun.store.rows import Budgets, Requested, RunState

from .world import OBJECT, SUSPENDED, World, commit, question, seen, totals


async def test_a_decision_is_recorded_and_the_run_goes_on(
    world: World, sql: psycopg.Connection
) -> None:
    row = await world.suspended(1)
    (approval,) = row.pending_approvals
    after = await world.decide(row, body=b"decision")
    assert after is not None
    assert (after.state, after.attempt, after.fence) == (RunState.ACTIVE, 2, 2)
    assert after.pending_approvals == ()
    *_, decision, start = (await world.operator.commits(row.run_uid)).commits
    assert (decision.origin, decision.kind, decision.ref, decision.body) == (
        "O",
        "approval/decision",
        f"decision:{approval.id}",
        b"decision",
    )
    assert (start.origin, start.kind, start.fence) == ("O", "attempt/start", 2)
    assert decision.fence == 1
    stored = sql.execute(
        "SELECT state, decided_by, decided_at IS NOT NULL, consumed_attempt"
        " FROM agentrun.approval WHERE id = %s",
        (approval.id,),
    ).fetchone()
    assert stored == ("Approved", "alice", True, 2)


@pytest.mark.parametrize(
    ("decision", "state"),
    [("Approve", "Approved"), ("Deny", "Denied"), ("Stale", "Stale"), ("Answer", "Answered")],
)
async def test_what_was_decided_is_kept(
    world: World, sql: psycopg.Connection, decision: str, state: str
) -> None:
    row = await world.suspended(1)
    assert await world.decide(row, decision=decision) is not None
    found = sql.execute(
        "SELECT state FROM agentrun.approval WHERE run_uid = %s", (row.run_uid,)
    ).fetchone()
    assert found == (state,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"approval_object_uid": "another"},
        {"approval_id": "apr-unknown"},
        {"content_hash": "another"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_h71_only_for_the_object_and_the_content_that_was_asked(
    world: World, wrong: dict[str, Any]
) -> None:
    row = await world.suspended(1)
    assert await world.decide(row, **wrong) is None
    after = await world.row(row.run_uid)
    assert (len(after.pending_approvals), after.seq) == (1, row.seq)
    assert await world.decide(row) is not None


async def test_other_content_can_only_be_answered_by_stale(world: World) -> None:
    row = await world.suspended(1)
    assert await world.decide(row, decision="Deny", content_hash="other") is None
    assert await world.decide(row, decision="Stale", content_hash="other") is not None


@pytest.mark.parametrize("stale", [{"fence": 9}, {"object_uid": "another"}], ids=str)
async def test_only_for_the_run_that_was_seen(world: World, stale: dict[str, Any]) -> None:
    row = await world.suspended(1)
    assert await world.decide(row, seen=seen(row, **stale)) is None


async def test_h67_once(world: World) -> None:
    row = await world.suspended(2)
    assert await world.decide(row, 0) is not None
    assert await world.decide(row, 0) is None
    assert await world.decide(row, 0, decision="Deny") is None
    after = await world.row(row.run_uid)
    assert (len(after.pending_approvals), after.state) == (1, RunState.SUSPENDED)


async def test_h13_not_while_a_sibling_is_at_work(world: World) -> None:
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    await runner.append(commit("approval/request", approvals=(asked,)), totals())
    assert await world.operator.bind_approval(claim.run_uid, asked.id, "object", None)
    early = await world.row(claim.run_uid)
    assert await world.decide(early) is None
    assert await runner.append(commit(ref="result:main/1/1/1"), totals()) == 3, "not refused"
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    assert await world.decide(await world.row(claim.run_uid)) is not None


async def test_h12_several_questions_are_all_answered_before_it_goes_on(world: World) -> None:
    row = await world.suspended(3)
    for index in (2, 0):
        after = await world.decide(row, index)
        assert after is not None
        assert after.state is RunState.SUSPENDED
    after = await world.decide(row, 1)
    assert after is not None
    assert (after.state, after.attempt) == (RunState.ACTIVE, 2)


async def test_h26_suspended_by_its_user_it_stays_so(world: World) -> None:
    row = await world.suspended(1)
    await world.operator.request(row.run_uid, OBJECT, 2, Requested.SUSPEND, "User", "", Budgets())
    after = await world.decide(row)
    assert after is not None
    assert (after.state, after.attempt, after.pending_approvals) == (RunState.SUSPENDED, 1, ())
    await world.operator.request(row.run_uid, OBJECT, 3, Requested.RUN, "", "", Budgets())
    row = await world.row(row.run_uid)
    minted = await world.operator.mint(
        seen(row), "resumed", world.attempt(secrets.token_bytes(32)), None
    )
    assert minted is not None


async def test_nothing_is_decided_about_a_cancelled_run(world: World) -> None:
    row = await world.suspended(1)
    await world.operator.request(row.run_uid, OBJECT, 2, Requested.CANCEL, "User", "", Budgets())
    assert await world.decide(row) is None


async def test_without_an_attempt_to_mint_it_is_recorded_and_minted_later(world: World) -> None:
    row = await world.suspended(1)
    after = await world.decide(row, mint=False)
    assert after is not None
    assert after.state is RunState.SUSPENDED
    minted = await world.operator.mint(
        seen(after), "resumed", world.attempt(secrets.token_bytes(32)), None
    )
    assert minted is not None
    assert minted.attempts[-1].continued_from_seq == row.seq, "where the pod left it"


async def test_a_wait_that_is_not_over_is_waited_for(world: World) -> None:
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    await runner.append(commit("approval/request", approvals=(asked,)), totals())
    waits = replace(SUSPENDED, wait_ms=3_600_000)
    await runner.append(commit("run/suspend"), totals(), end=waits)
    assert await world.operator.bind_approval(claim.run_uid, asked.id, "object", None)
    after = await world.decide(await world.row(claim.run_uid))
    assert after is not None
    assert after.state is RunState.SUSPENDED


async def test_h67_a_second_question_about_one_call_has_its_own_decision(world: World) -> None:
    row = await world.suspended(1)
    secret = secrets.token_bytes(32)
    after = await world.decide(row, new=world.attempt(secret))
    assert after is not None
    runner = world.runner(after, secret, holder="pod-2")
    await runner.claim()
    again = question(row.run_uid, ordinal=2)
    assert again.id != row.pending_approvals[0].id
    await runner.append(commit("approval/request", approvals=(again,)), totals())
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    assert await world.operator.bind_approval(row.run_uid, again.id, "object-2", None)
    second = await world.row(row.run_uid)
    assert [a.ordinal for a in second.pending_approvals] == [2]
    assert await world.decide(row, 0) is None, "the first answer is not spent on it"
    assert await world.decide(second) is not None


async def test_h71_objects_are_bound_by_compare_and_set(world: World) -> None:
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    await runner.append(commit("approval/request", approvals=(asked,)), totals())
    bind = partial(world.operator.bind_approval, claim.run_uid)
    assert not await bind(asked.id, "a", "never-was")
    assert await bind(asked.id, "a", None)
    assert not await bind(asked.id, "b", None)
    assert await bind(asked.id, "b", "a")
    assert not await bind("unknown", "b", None)
    (approval,) = (await world.row(claim.run_uid)).pending_approvals
    assert approval.object_uid == "b"


async def test_a_question_of_the_same_name_in_another_run_is_another_question(
    world: World,
) -> None:
    """A runner names its questions; one that takes another run's name must not keep that run from
    asking, nor get its object or its decision."""
    hostile, theirs = await world.active()
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    await hostile.append(commit("approval/request", approvals=(asked,)), totals())
    await runner.append(commit("approval/request", approvals=(asked,)), totals())
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    assert await world.operator.bind_approval(claim.run_uid, asked.id, "object", None)
    assert await world.decide(await world.row(claim.run_uid)) is not None
    (left,) = (await world.row(theirs.run_uid)).pending_approvals
    assert left.object_uid is None


async def test_a_decided_question_is_bound_to_nothing_else(world: World) -> None:
    row = await world.suspended(2)
    approval = row.pending_approvals[0]
    assert await world.decide(row, 0) is not None
    assert not await world.operator.bind_approval(
        row.run_uid, approval.id, "forged", approval.object_uid
    )


async def test_h71_a_question_without_an_object_cannot_be_decided(world: World) -> None:
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    await runner.append(commit("approval/request", approvals=(asked,)), totals())
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    row = await world.row(claim.run_uid)
    assert await world.decide(row, approval_object_uid="forged") is None
