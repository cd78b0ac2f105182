"""One boundary, one statement: what lands, what does not, and what the answer says."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from agentrun.errors import StoreRefused, StoreRegressed
from agentrun.run.chain import genesis, link
from agentrun.run.codec import BODY_MAX
from agentrun.run.values import LastWord
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import Budgets, Requested, RunState, TotalsRow
from agentrun.store.runner_store.hold import Answer
from agentrun.store.runner_store.jobs import SQL

from .world import SUCCEEDED, SUSPENDED, World, commit, eventually, question, seen, totals


async def test_the_chain_in_sql_is_the_chain_in_python(world: World) -> None:
    runner, claim = await world.active()
    await runner.append(commit("after_model", body=b"\x00\xff\xfe", codec=1), totals())
    await runner.append(commit("tool/result", ref="result:main/1/1/0", body=b"x" * 9000), totals())
    await asyncio.gather(*(runner.append(commit(body=bytes([i])), totals()) for i in range(20)))
    chain = genesis(claim.run_uid)
    commits = (await world.operator.commits(claim.run_uid)).commits
    for c in commits:
        chain = link(chain, c.seq, c.origin, c.kind, c.ref, c.codec, c.body)
        assert c.chain == chain
    assert len(commits) == 23


async def test_the_store_takes_as_much_in_one_commit_as_the_codec_believes(world: World) -> None:
    runner, _ = await world.active()
    await runner.append(commit(body=b"x" * BODY_MAX), totals())
    with pytest.raises(StoreRefused):
        await runner.append(commit(body=b"x" * (BODY_MAX + 1)), totals())


async def test_totals_progress_and_times_are_kept_on_the_row(world: World) -> None:
    runner, claim = await world.active()
    before = await world.row(claim.run_uid)
    assert before.first_commit_at is None
    sums = TotalsRow(3, 4, 5, 6, 7, 8, 9)
    await runner.append(commit("tool/start", progress=False), sums)
    after = await world.row(claim.run_uid)
    assert after.totals == sums
    assert (after.seq, after.progress_seq) == (2, 0)
    assert after.first_commit_at == after.last_commit_at is not None
    await runner.append(commit(), sums)
    assert (await world.row(claim.run_uid)).progress_seq == 3


async def test_h30_progress_resets_the_back_off_and_never_the_counters(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active()
    sql.execute(
        "UPDATE agentrun.run SET app_faults = 2, infra_faults = 3, faults_at_progress = 2,"
        " backoff_step = 2 WHERE run_uid = %s",
        (claim.run_uid,),
    )
    await runner.append(commit(progress=False), totals())
    asked = commit("approval/request", progress=False, approvals=(question(claim.run_uid),))
    await runner.append(asked, totals())  # the statement for groups
    row = await world.row(claim.run_uid)
    assert (row.faults_at_progress, row.backoff_step) == (2, 2)
    await runner.append(commit(progress=True), totals())
    row = await world.row(claim.run_uid)
    assert (row.faults_at_progress, row.backoff_step) == (0, 0)
    assert (row.app_faults, row.infra_faults) == (2, 3)


async def test_every_append_extends_the_lease_and_tells_what_is_wanted(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active()
    world.expire(sql, claim.run_uid)
    wanted = Budgets(turns=1)
    row = await world.row(claim.run_uid)
    assert row.lease_expired
    await world.operator.request(
        row.run_uid, row.object_uid, 2, Requested.SUSPEND, "User", "bob", wanted
    )
    await runner.append(commit(), totals())
    assert not (await world.row(claim.run_uid)).lease_expired
    control = runner.control()
    assert (control.requested, control.requested_reason) == (Requested.SUSPEND, "User")
    assert control.budgets == wanted


@pytest.mark.parametrize("state", [s for s in RunState if s.terminal and s is not RunState.REVOKED])
async def test_the_last_commit_sets_the_outcome(world: World, state: RunState) -> None:
    runner, claim = await world.active()
    end = LastWord(state, "Reason", "message", preview="preview")
    await runner.append(commit("run/end"), totals(), end=end)
    row = await world.row(claim.run_uid)
    assert (row.state, row.reason, row.message, row.preview) == (
        state,
        "Reason",
        "message",
        "preview",
    )
    assert row.finished_at is not None
    assert row.active_since is None
    attempt = row.attempts[-1]
    assert (attempt.cause, attempt.fault, attempt.last_seq) == (str(state), "None", 2)
    assert row.fence == 1, "its own word raises no fence"


async def test_a_suspension_keeps_its_wait_and_its_questions(world: World) -> None:
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    await runner.append(commit("approval/request", approvals=(asked,)), totals())
    waits = replace(SUSPENDED, wait_ms=3_600_000)
    await runner.append(commit("run/suspend"), totals(), end=waits)
    row = await world.row(claim.run_uid)
    assert row.state is RunState.SUSPENDED
    assert row.retry_at is not None
    assert row.suspended_at is not None
    assert row.retry_at > row.db_now
    (approval,) = row.pending_approvals
    assert (approval.id, approval.content, approval.content_hash) == (
        asked.id,
        asked.content,
        asked.content_hash,
    )
    assert (approval.scope, approval.boundary, approval.ordinal) == ("Tool", "main/1/1/0", 1)


async def test_an_outcome_closes_the_questions_nobody_answered(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    await runner.append(commit("approval/request", approvals=(asked,)), totals())
    await runner.append(commit("run/end"), totals(), end=SUCCEEDED)
    assert (await world.row(claim.run_uid)).pending_approvals == ()
    state = sql.execute("SELECT state FROM agentrun.approval WHERE id = %s", (asked.id,)).fetchone()
    assert state == ("Closed",)


async def test_h19_eight_hundred_appends_at_once_are_grouped_and_none_is_refused(
    world: World, sql: psycopg.Connection
) -> None:
    """They pile up behind the one that is in flight, which waits for a lock."""
    runner, claim = await world.active()
    bodies = [b"%d" % i for i in range(800)]
    with sql.transaction():
        sql.execute("SELECT 1 FROM agentrun.run WHERE run_uid = %s FOR UPDATE", (claim.run_uid,))
        tasks = [asyncio.ensure_future(runner.append(commit(body=b), totals())) for b in bodies]
        waiting = runner._engine.ledger.waiting
        await eventually(lambda: len(waiting) == len(bodies), "all are queued")
    assert await asyncio.gather(*tasks) == list(range(2, 802)), "in call order"
    stored = (await world.operator.commits(claim.run_uid)).commits[1:]
    assert [c.body for c in stored] == bodies
    assert len({c.at for c in stored}) <= 20, "statements"
    assert runner._engine.wire.opened == 1, "one connection"


async def test_a_second_result_of_one_call_is_refused_alone(world: World) -> None:
    runner, claim = await world.active()
    await runner.append(commit(ref="result:main/1/1/0"), totals())
    outcomes = await asyncio.gather(
        *(
            runner.append(commit(ref=ref), totals())
            for ref in [None, "result:main/1/1/1", "result:main/1/1/0", None, "result:main/1/1/2"]
        ),
        return_exceptions=True,
    )
    assert [type(o) for o in outcomes] == [int, int, StoreRefused, int, int]
    assert "commit_ref" in str(outcomes[2])
    commits = (await world.operator.commits(claim.run_uid)).commits
    assert [c.ref for c in commits[2:]] == [None, "result:main/1/1/1", None, "result:main/1/1/2"]


async def test_several_culprits_in_a_group_are_all_found(world: World) -> None:
    runner, _ = await world.active()
    bad = {3, 4, 17, 30}
    outcomes = await asyncio.gather(
        *(runner.append(commit("Not A Kind" if i in bad else "kind"), totals()) for i in range(40)),
        return_exceptions=True,
    )
    assert {i for i, o in enumerate(outcomes) if isinstance(o, StoreRefused)} == bad
    landed = [o for o in outcomes if isinstance(o, int)]
    assert landed == list(range(2, 38))


@pytest.mark.parametrize("kind", ["run/start", "attempt/start", "attempt/end", "approval/decision"])
async def test_h47_a_runner_cannot_write_what_is_the_operators(world: World, kind: str) -> None:
    runner, _ = await world.active()
    with pytest.raises(StoreRefused, match="runner_kind"):
        await runner.append(commit(kind), totals())
    grouped = await asyncio.gather(
        runner.append(commit(), totals()),
        runner.append(commit(), totals()),
        runner.append(commit(kind), totals()),
        return_exceptions=True,
    )
    assert [type(o) for o in grouped] == [int, int, StoreRefused]


async def test_h47_a_runner_cannot_take_the_place_of_a_decision(world: World) -> None:
    runner, claim = await world.active()
    asked = question(claim.run_uid)
    ref = f"decision:{asked.id}"
    with pytest.raises(StoreRefused, match="runner_ref"):
        await runner.append(commit(ref=ref), totals())
    with pytest.raises(StoreRefused, match="runner_ref"):
        await runner.append(commit("run/suspend", ref=ref), totals(), end=SUSPENDED)


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "a|b"},
        {"kind": ""},
        {"kind": "x" * 65},
        {"ref": "a|b"},
        {"ref": ""},
        {"ref": "r" * 1025},
        {"ref": "nul\0"},
        {"ref": "\ud800"},
        {"body": bytes(16 * 1024 * 1024 + 1)},
    ],
    ids="-".join,
)
async def test_what_does_not_fit_is_refused_and_the_next_goes_on(
    world: World, bad: dict[str, Any]
) -> None:
    runner, _ = await world.active()
    with pytest.raises(StoreRefused):
        await runner.append(commit(**bad), totals())
    assert await runner.append(commit(), totals()) == 2


async def test_nothing_can_be_appended_to_a_run_that_is_over(world: World) -> None:
    runner, claim = await world.active()
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    with pytest.raises(StoreRefused, match="Suspended"):
        await runner.append(commit(), totals())
    assert (await world.row(claim.run_uid)).seq == 2


async def test_an_append_before_the_claim_is_refused(world: World) -> None:
    row, secret = await world.minted()
    with pytest.raises(StoreRefused, match="nothing was claimed"):
        await world.runner(row, secret).append(commit(), totals())


async def test_a_store_behind_what_it_acknowledged_has_regressed(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active()
    for _ in range(3):
        await runner.append(commit(), totals())
    sql.execute("UPDATE agentrun.run SET seq = 2 WHERE run_uid = %s", (claim.run_uid,))
    with pytest.raises(StoreRegressed, match="at 2, it had acknowledged 4"):
        await runner.append(commit(), totals())
    with pytest.raises(StoreRegressed):
        runner.control()


async def test_a_vanished_row_and_a_forgotten_claim_are_regressions(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active()
    sql.execute(
        "UPDATE agentrun.run SET holder = NULL, secret_hash = NULL WHERE run_uid = %s",
        (claim.run_uid,),
    )
    sql.execute(
        "UPDATE agentrun.attempt SET secret_hash = NULL WHERE run_uid = %s", (claim.run_uid,)
    )
    with pytest.raises(StoreRegressed, match="forgot this attempt's claim"):
        await runner.append(commit(), totals())
    other, claim = await world.active()
    sql.execute("DELETE FROM agentrun.run WHERE run_uid = %s", (claim.run_uid,))
    with pytest.raises(StoreRegressed, match="row is gone"):
        await other.append(commit(), totals())


# The WHERE of the hot path, clause by clause, below the client's own checks.


@pytest.mark.parametrize(
    ("broken", "known"),
    [
        ({"fence": 2}, False),
        ({"fence": 0}, False),
        ({"seq": 2}, True),
        ({"seq": 0}, True),
        ({"secret": b"wrong"}, False),
        ({"run_uid": "another"}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["append", "append_group"])
async def test_every_condition_of_an_append_counts(
    world: World, sql: psycopg.Connection, broken: dict[str, Any], known: bool, form: str
) -> None:
    row, secret = await world.minted()
    await world.runner(row, secret).claim()
    right: dict[str, Any] = {"run_uid": row.run_uid, "fence": 1, "secret": secret, "seq": 1}
    answer = _raw(sql, form, **{**right, **broken})
    assert not answer.ok
    assert answer.known is known
    assert (answer.seq is None) is not known, "a stranger is told the fence and nothing else"
    assert (await world.row(row.run_uid)).seq == 1
    assert _raw(sql, form, **right).ok
    assert not _raw(sql, form, **right).ok, "and only once"


@pytest.mark.parametrize("form", ["append", "append_group"])
async def test_h61_an_append_needs_an_active_run_and_a_claim(
    world: World, sql: psycopg.Connection, form: str
) -> None:
    row, secret = await world.minted()
    right: dict[str, Any] = {"run_uid": row.run_uid, "fence": 1, "secret": secret, "seq": 1}
    assert not _raw(sql, form, **right).ok, "issued is not pinned"
    await world.runner(row, secret).claim()
    for state in RunState:
        if state is not RunState.ACTIVE:
            sql.execute(
                "UPDATE agentrun.run SET state = %s WHERE run_uid = %s", (state, row.run_uid)
            )
            assert not _raw(sql, form, **right).ok
    sql.execute("UPDATE agentrun.run SET state = 'Active' WHERE run_uid = %s", (row.run_uid,))
    assert _raw(sql, form, **right).ok


async def test_a_fenced_owner_still_learns_what_landed(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active()
    await runner.append(commit(), totals())
    revoked = await world.operator.revoke(claim.run_uid, claim.object_uid, "Deleted")
    assert revoked is not None
    answer = _raw(sql, "append", run_uid=claim.run_uid, fence=1, secret=runner._hold.secret, seq=1)
    assert (answer.ok, answer.known, answer.fence, answer.seq) == (False, True, 2, 2)
    assert answer.write_id is not None


@pytest.mark.parametrize("wait_ms", [9 * 10**15, 2**62, 2**63 - 1])
async def test_a_wait_beyond_all_calendars_leaves_the_run_readable(
    world: World, wait_ms: int
) -> None:
    runner, claim = await world.active()
    await runner.append(commit("run/suspend"), totals(), end=replace(SUSPENDED, wait_ms=wait_ms))
    row = await world.row(claim.run_uid)
    assert row.retry_at is not None
    assert 300 < (row.retry_at - row.db_now).days < 400
    assert claim.run_uid in {
        one.run_uid for one in await world.operator.unfinished(world.installation)
    }


@pytest.mark.parametrize(
    "forged",
    [
        {"scope": "Bogus"},
        {"boundary": ""},
        {"boundary": "b" * 513},
        {"content_hash": ""},
        {"content_hash": "G" * 64},
    ],
)
async def test_a_question_that_no_approval_could_show_is_refused(
    world: World, forged: dict[str, str]
) -> None:
    runner, claim = await world.active()
    asked = replace(question(claim.run_uid), **forged)  # type: ignore[arg-type]
    with pytest.raises(StoreRefused):
        await runner.append(commit("approval/request", approvals=(asked,)), totals())
    assert (await world.row(claim.run_uid)).pending_approvals == ()


async def test_a_runner_cannot_revoke_or_un_suspend_itself(
    world: World, sql: psycopg.Connection
) -> None:
    runner, _ = await world.active()
    for state in (RunState.REVOKED, RunState.PENDING, RunState.ACTIVE):
        with pytest.raises(StoreRefused, match="cannot set the state"):
            await runner.append(commit(), totals(), end=LastWord(state, "", ""))


async def test_a_renewal_touches_neither_seq_nor_write_id(
    world: World, sql: psycopg.Connection
) -> None:
    runner, claim = await world.active()
    await runner.append(commit(), totals())
    world.expire(sql, claim.run_uid)
    look = "SELECT seq, write_id, chain FROM agentrun.run WHERE run_uid = %s"
    before = sql.execute(look, (claim.run_uid,)).fetchone()
    answer = Answer(*sql.execute(SQL["renew"], runner._hold.parameters()).fetchall()[0])
    assert answer.ok
    assert sql.execute(look, (claim.run_uid,)).fetchone() == before
    row = await world.row(claim.run_uid)
    assert not row.lease_expired
    assert seen(row).seq == 2


def _raw(sql: psycopg.Connection, form: str, **at: Any) -> Answer:
    at_ = (at["run_uid"], at["fence"], at["secret"], at["seq"], uuid4())
    sums = (1, 2, 3, 4, 5, 6, 7)
    if form == "append":
        parameters: tuple[Any, ...] = (*at_, "kind", None, 0, b"body", True, *sums)
    else:
        columns = (["kind", "kind"], [None, None], [0, 0], [b"a", b"b"], 1)
        parameters = (*at_, *columns, *sums, *[None] * 5, *[[] for _ in range(8)])
    return Answer(*sql.execute(SQL[form], parameters, binary=True).fetchall()[0])


async def test_h9_a_blob_put_again_by_the_successor_is_there(
    world: World, sql: psycopg.Connection
) -> None:
    body = b"picture" * 1000
    name = hashlib.sha256(body).hexdigest()
    runner, claim = await world.active()
    await runner.append(commit(blobs={name: body}), totals())
    row = await world.row(claim.run_uid)
    world.expire(sql, claim.run_uid)
    secret = b"2" * 32
    minted = await world.operator.mint(seen(row), "lease-expired", world.attempt(secret), None)
    assert minted is not None
    successor = world.runner(minted, secret, holder="pod-uid-2")
    await successor.claim()
    await successor.append(commit(blobs={name: body}), totals())
    assert await successor.blobs([name, name]) == {name: body}
    assert await world.operator.blobs(claim.run_uid, [name]) == {name: body}
    count = sql.execute("SELECT count(*) FROM agentrun.blob WHERE run_uid = %s", (claim.run_uid,))
    assert count.fetchone() == (1,)


async def test_h9_nothing_that_happens_to_a_live_run_collects_its_blobs(
    world: World, sql: psycopg.Connection
) -> None:
    """One that no commit names yet included: a successor may find it there, and name it later."""
    body = b"picture" * 1000
    name = hashlib.sha256(body).hexdigest()
    runner, claim = await world.active()
    sql.execute(SQL["put_blob"], runner._hold.parameters(body=body))
    operator, uid = world.operator, claim.run_uid
    await runner.append(commit(), totals())
    await runner.snapshot(1, 2, 0, b"{}")
    await runner.release()
    end = AttemptEnd("Drained", "Infra", 143)
    assert await operator.charge(seen(await world.row(uid)), end, 0)
    secret = b"2" * 32
    row = await operator.mint(seen(await world.row(uid)), "charged", world.attempt(secret), None)
    assert row is not None
    assert await operator.add_secret(seen(row), b"3" * 32)
    successor = world.runner(row, secret, holder="pod-uid-2")
    await successor.claim()
    await operator.purge_secrets(uid)
    asked = question(uid)
    await successor.append(commit("approval/request", approvals=(asked,)), totals())
    await successor.append(commit("run/suspend"), totals(), end=SUSPENDED)
    assert await operator.bind_approval(uid, asked.id, "object", None)
    resumed = await world.decide(await world.row(uid))
    assert resumed is not None
    wish = (uid, resumed.object_uid, 2, Requested.SUSPEND, "User", "", Budgets())
    row = await operator.request(*wish)
    assert row is not None
    assert await operator.suspend(seen(row), "SuspendedByUser", "", 0, b"x", end)
    assert await operator.blobs(uid, [name]) == {name: body}


async def test_a_blob_under_a_wrong_name_is_refused_with_its_commit_alone(world: World) -> None:
    runner, claim = await world.active()
    good, bad = await asyncio.gather(
        runner.append(commit(), totals()),
        runner.append(commit(blobs={"00" * 32: b"body"}), totals()),
        return_exceptions=True,
    )
    assert good == 2
    assert isinstance(bad, StoreRefused)
    assert (await world.row(claim.run_uid)).seq == 2
