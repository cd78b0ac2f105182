"""What is read back: exactly what was written, or CheckpointCorrupt."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from typing import Any

import psycopg
import pytest

from agentrun.errors import CheckpointCorrupt, Fenced, StoreError, StoreRefused
from agentrun.store.port import AttemptEnd
from agentrun.store.runner_store.facade import PostgresRunnerStore

from .proxy import Proxy
from .world import SUSPENDED, World, commit, seen, totals

Sql = psycopg.Connection


async def written(world: World, count: int = 5) -> tuple[PostgresRunnerStore, str]:
    """A run with commits 1 to ``count`` + 1."""
    runner, claim = await world.active()
    for n in range(count):
        await runner.append(commit(body=b"body-%d" % n), totals())
    return runner, claim.run_uid


@pytest.mark.parametrize("size", [0, 1, 511, 2_000, 2_049, 70_000, 9_000_000])
async def test_bodies_come_back_byte_for_byte(world: World, size: int) -> None:
    runner, _ = await world.active()
    body = secrets.token_bytes(size)
    await runner.append(
        commit(body=body, codec=1, kind="tool/result", ref="result:a/1/1/0"), totals()
    )
    restored = await runner.restore()
    assert restored.snapshot is None
    last = restored.commits[-1]
    assert (last.body, last.codec, last.kind, last.ref) == (
        body,
        1,
        "tool/result",
        "result:a/1/1/0",
    )


async def test_a_snapshot_replaces_what_it_covers(world: World) -> None:
    runner, uid = await written(world)
    before = await runner.restore()
    await runner.snapshot(7, 4, 1, b"state at four")
    restored = await runner.restore()
    assert restored.snapshot is not None
    assert (restored.snapshot.seq, restored.snapshot.version) == (4, 7)
    assert (restored.snapshot.codec, restored.snapshot.body) == (1, b"state at four")
    assert restored.snapshot.chain == before.commits[3].chain
    assert restored.commits == before.commits[4:]
    assert (await world.row(uid)).snapshot_seq == 4
    assert (await world.operator.commits(uid)).commits == before.commits, "the log stays"


async def test_a_snapshot_of_the_last_commit_leaves_nothing_to_fold(world: World) -> None:
    runner, _ = await written(world)
    await runner.snapshot(1, 6, 0, b"all")
    restored = await runner.restore()
    assert restored.snapshot is not None
    assert restored.commits == ()


async def test_snapshots_never_go_back_and_only_two_are_kept(world: World, sql: Sql) -> None:
    runner, uid = await written(world)
    for seq in (2, 4, 4, 3, 6):
        await runner.snapshot(1, seq, 0, b"at %d" % seq)
    assert (await world.row(uid)).snapshot_seq == 6
    rows = sql.execute(
        "SELECT seq, body FROM agentrun.snapshot WHERE run_uid = %s ORDER BY seq", (uid,)
    ).fetchall()
    assert rows == [(4, b"at 4"), (6, b"at 6")]


async def test_no_snapshot_of_what_is_not_there(world: World) -> None:
    runner, uid = await written(world)
    with pytest.raises(StoreRefused, match="no commit 7"):
        await runner.snapshot(1, 7, 0, b"future")
    assert (await world.row(uid)).snapshot_seq == 0


async def test_a_snapshot_brings_its_blobs(world: World) -> None:
    runner, _ = await written(world)
    body = b"long" * 100_000
    name = hashlib.sha256(body).hexdigest()
    await runner.snapshot(1, 3, 0, b"state", {name: body})
    assert await runner.blobs([name]) == {name: body}


async def test_h54_boundaries_do_not_wait_for_a_snapshot_that_waits(world: World) -> None:
    """Snapshots come after everything else that is queued."""
    runner, _uid = await written(world)
    order: list[str] = []

    async def noted(name: str, work: Any) -> None:
        await work
        order.append(name)

    await asyncio.gather(
        noted("snapshot", runner.snapshot(1, 6, 0, bytes(1_000_000))),
        *(noted("append", runner.append(commit(), totals())) for _ in range(20)),
    )
    assert order[-1] == "snapshot"


async def test_a_run_that_never_pauses_gets_its_snapshots_too(world: World) -> None:
    runner, uid = await written(world)
    done = asyncio.Event()

    async def busy() -> None:
        while not done.is_set():
            await runner.append(commit(), totals())

    writers = [asyncio.create_task(busy()) for _ in range(4)]
    await runner.snapshot(1, 6, 0, b"state")
    done.set()
    await asyncio.gather(*writers)
    assert (await world.row(uid)).snapshot_seq == 6


async def test_a_zombie_restores_and_writes_nothing(world: World, sql: Sql) -> None:
    runner, uid = await written(world)
    row = await world.row(uid)
    new = world.attempt(secrets.token_bytes(32))
    assert await world.operator.mint(seen(row), "ended", new, AttemptEnd("x", "Infra"))
    with pytest.raises(Fenced):
        await runner.restore()
    with pytest.raises(Fenced):
        await runner.snapshot(1, 3, 0, b"zombie")
    with pytest.raises(Fenced):
        await runner.blobs(["00" * 32])
    with pytest.raises(Fenced):
        await runner.release()
    assert sql.execute(
        "SELECT count(*) FROM agentrun.snapshot WHERE run_uid = %s", (uid,)
    ).fetchone() == (0,)


async def test_nothing_is_told_to_a_stranger_or_after_the_end(world: World) -> None:
    runner, uid = await written(world)
    row = await world.row(uid)
    stranger = world.runner(row, secrets.token_bytes(32))
    for ask in (stranger.restore, stranger.release):
        with pytest.raises(StoreRefused, match="not the secret"):
            await ask()
    await runner.append(commit("run/suspend"), totals(), end=SUSPENDED)
    with pytest.raises(StoreRefused, match="the run is Suspended"):
        await runner.restore()


# Corruption: each of these is a change by someone who can write to the disk.

CHANGES = {
    "body": "UPDATE agentrun.commit SET body = 'x' WHERE run_uid = %s AND seq = 3",
    "kind": "UPDATE agentrun.commit SET kind = 'other' WHERE run_uid = %s AND seq = 3",
    "ref": "UPDATE agentrun.commit SET ref = 'other' WHERE run_uid = %s AND seq = 3",
    "codec": "UPDATE agentrun.commit SET codec = 9 WHERE run_uid = %s AND seq = 3",
    "origin": "UPDATE agentrun.commit SET origin = 'O' WHERE run_uid = %s AND seq = 3",
    "chain": "UPDATE agentrun.commit SET chain = 'x' WHERE run_uid = %s AND seq = 3",
    "missing in the middle": "DELETE FROM agentrun.commit WHERE run_uid = %s AND seq = 3",
    "missing at the start": "DELETE FROM agentrun.commit WHERE run_uid = %s AND seq = 1",
    "missing at the end": "DELETE FROM agentrun.commit WHERE run_uid = %s AND seq = 6",
    "all missing": "DELETE FROM agentrun.commit WHERE run_uid = %s",
    "head": "UPDATE agentrun.run SET chain = sha256('x') WHERE run_uid = %s",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_changed_commit_is_noticed(world: World, sql: Sql, change: str) -> None:
    runner, uid = await written(world)
    await runner.restore()
    sql.execute(change, (uid,))
    with pytest.raises(CheckpointCorrupt):
        await runner.restore()
    with pytest.raises(CheckpointCorrupt):
        await world.operator.commits(uid)


SNAPSHOT_CHANGES = {
    "body": "UPDATE agentrun.snapshot SET body = 'x' WHERE run_uid = %s",
    "version": "UPDATE agentrun.snapshot SET version = 9 WHERE run_uid = %s",
    "codec": "UPDATE agentrun.snapshot SET codec = 9 WHERE run_uid = %s",
    "chain": "UPDATE agentrun.snapshot SET chain = 'x' WHERE run_uid = %s",
    "hash": "UPDATE agentrun.snapshot SET sha256 = 'x' WHERE run_uid = %s",
    "missing": "DELETE FROM agentrun.snapshot WHERE run_uid = %s",
}


@pytest.mark.parametrize("change", SNAPSHOT_CHANGES.values(), ids=SNAPSHOT_CHANGES)
async def test_a_changed_snapshot_is_noticed(world: World, sql: Sql, change: str) -> None:
    runner, uid = await written(world)
    await runner.snapshot(1, 4, 0, b"state")
    await runner.restore()
    sql.execute(change, (uid,))
    with pytest.raises(CheckpointCorrupt):
        await runner.restore()


async def test_a_snapshot_of_another_run_does_not_fit(world: World, sql: Sql) -> None:
    runner, uid = await written(world)
    other, other_uid = await written(world)
    for each in (runner, other):
        await each.snapshot(1, 4, 0, b"state")
    sql.execute(
        "UPDATE agentrun.snapshot a SET chain = b.chain, sha256 = b.sha256, body = b.body"
        " FROM agentrun.snapshot b WHERE a.run_uid = %s AND b.run_uid = %s",
        (uid, other_uid),
    )
    with pytest.raises(CheckpointCorrupt):
        await runner.restore()


async def test_a_missing_or_altered_blob_is_noticed(world: World, sql: Sql) -> None:
    runner, uid = await written(world)
    names = []
    for body in (b"first", b"second"):
        names.append(hashlib.sha256(body).hexdigest())
        await runner.append(commit(blobs={names[-1]: body}), totals())
    sql.execute("UPDATE agentrun.blob SET body = 'x' WHERE body = 'first'")
    sql.execute("DELETE FROM agentrun.blob WHERE body = 'second'")
    for name in names:
        with pytest.raises(CheckpointCorrupt):
            await runner.blobs([name])
        with pytest.raises(CheckpointCorrupt):
            await world.operator.blobs(uid, [name])
    assert await runner.blobs([]) == {}


async def test_blobs_are_the_runs_own(world: World) -> None:
    body = b"private"
    name = hashlib.sha256(body).hexdigest()
    owner, _ = await world.active()
    await owner.append(commit(blobs={name: body}), totals())
    other, _ = await world.active()
    with pytest.raises(CheckpointCorrupt, match="missing"):
        await other.blobs([name])


async def test_errors_hold_no_content(world: World, sql: Sql) -> None:
    runner, uid = await written(world)
    await runner.append(commit(ref="result:main/1/1/0", body=b"prompt"), totals())
    errors: list[StoreError | CheckpointCorrupt] = []
    for bad in (commit(ref="result:main/1/1/0", body=b"prompt"), commit("Prompt Kind")):
        with pytest.raises(StoreRefused) as refused:
            await runner.append(bad, totals())
        errors.append(refused.value)
    sql.execute("UPDATE agentrun.commit SET body = 'prompt' WHERE run_uid = %s", (uid,))
    with pytest.raises(CheckpointCorrupt) as caught:
        await runner.restore()
    errors.append(caught.value)
    for error in errors:
        assert "rompt" not in str(error)
        assert runner._hold.secret.hex() not in str(error)
        assert "Restore the database" in str(error) or isinstance(error, StoreRefused)


# How much it costs to read.


@pytest.mark.parametrize("commits", [10, 500])
async def test_a_restore_is_one_query_however_long_the_run(
    world: World, proxy: Proxy, commits: int
) -> None:
    runner, _ = await world.active(options={"dsn": proxy.client_dsn})
    await asyncio.gather(*(runner.append(commit(), totals()) for _ in range(commits)))
    await runner.snapshot(1, commits // 2, 0, b"state")
    proxy.forget()
    restored = await runner.restore()
    assert len(restored.commits) == commits + 1 - commits // 2
    assert proxy.round_trips == 1


async def test_the_operator_reads_from_any_point(world: World) -> None:
    _, uid = await written(world)
    everything = (await world.operator.commits(uid)).commits
    for after in range(7):
        part = (await world.operator.commits(uid, after)).commits
        assert part == everything[after:]
