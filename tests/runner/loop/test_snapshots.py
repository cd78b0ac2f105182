"""Snapshots: when, beside what, and that nobody needs them to be there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.runner.loop.fakes import Stage, asks, says, text
from tests.runner.loop.memory import MemoryStore
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.errors import StoreUnavailable
from agentrun.run import codec
from agentrun.run.fold import fold
from agentrun.run.state import State
from agentrun.runner.exits import Exit
from agentrun.runner.lifecycle import in_thread
from agentrun.runner.snapshots import BYTES, COMMITS, Growth, own_copy

ROUNDS = 90


def stage(rounds: int = ROUNDS) -> Stage:
    return Stage(
        make_spec(),
        lambda turn: asks("look", turn=turn) if turn < rounds else text("done"),
    )


@pytest.mark.parametrize(
    ("growth", "due"),
    [
        (Growth(COMMITS - 1, BYTES - 1, 0), False),
        (Growth(COMMITS, 10, 0), True),
        (Growth(3, BYTES, 0), True),
        (Growth(COMMITS, 1000, 1001), False),
        (Growth(COMMITS, 1000, 1000), True),
    ],
)
def test_one_is_due_when_the_tail_is_as_large_as_the_last_and_not_tiny(
    growth: Growth, due: bool
) -> None:
    assert growth.due() is due


def test_snapshots_of_a_long_run_cost_a_bounded_multiple_of_its_commits() -> None:
    """The slope, not the number: twice the run, about twice the snapshot bytes."""

    def written(commits: int) -> int:
        growth, total, kept = Growth(), 0, 0
        for _ in range(commits):
            growth.commits += 1
            growth.size += 2000
            kept += 2000
            if growth.due():
                total += kept
                growth = Growth(snapshot=kept)
        return total

    for commits in (2_000, 4_000, 8_000, 16_000):
        assert written(commits) <= 2 * commits * 2000


def test_a_long_run_writes_them_and_the_next_attempt_starts_from_one() -> None:
    async def scene() -> None:
        made = stage()
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            if turns == 80:
                made.kill.at = len(made.kill.passed)

        made.kill.acts["before model"] = count
        assert await made.attempt() is None
        assert made.db.snapshots, "at least 128 commits were made"
        made.kill.at, made.kill.acts = None, {}
        await made.attempt()

        whole = stage()
        await whole.attempt()
        assert made.db.state == "Succeeded"
        assert made.db.transcript == whole.db.transcript
        assert made.db.totals == whole.db.totals
        assert dict(made.model.requests) == dict(whole.model.requests)

    run(scene())


def test_each_snapshot_is_the_fold_of_exactly_its_prefix() -> None:
    async def scene() -> None:
        made = stage()
        await made.attempt()

        assert made.db.snapshots
        for snapshot in made.db.snapshots:
            state = State()
            for commit in made.db.commits[: snapshot.seq]:
                fold(state, commit.origin, codec.decode(commit.codec, commit.body, {}))
            assert codec.decode_state(snapshot.codec, snapshot.body, {}) == state
            assert codec.encode_state(state).body == snapshot.body
            assert snapshot.chain == made.db.commits[snapshot.seq - 1].chain

    run(scene())


def test_h54_encoding_and_writing_hold_up_no_boundary() -> None:
    """H54: the snapshot hangs, once in its encoding and once in its writing, and the run ends."""

    async def scene() -> None:
        never = asyncio.Event()

        async def stuck(work: Callable[[], Any]) -> Any:
            if "encode_state" in work.__code__.co_names:
                await never.wait()
            return work()

        encoding = stage()
        encoding.offload = stuck
        assert (await encoding.attempt()).code is Exit.DONE
        assert not encoding.db.snapshots

        writing = stage()
        writing.kill.acts["before model"] = lambda: setattr(
            writing.store, "snapshot_gate", writing.store.snapshot_gate or asyncio.Event()
        )
        assert (await writing.attempt()).code is Exit.DONE
        assert not writing.db.snapshots

    run(scene())


def test_h54_encoding_runs_in_another_thread() -> None:
    here = threading.get_ident()

    there = asyncio.run(in_thread(threading.get_ident))

    assert there != here


def test_a_copy_does_not_change_when_the_run_goes_on() -> None:
    async def scene() -> None:
        made = stage(6)
        await made.attempt()
        state, taken = State(), []
        for commit in made.db.commits:
            records = codec.decode(commit.codec, commit.body, {})
            fold(state, commit.origin, records)
            taken.append((own_copy(state), codec.encode_state(state).body))

        for copy, body in taken:
            assert codec.encode_state(copy).body == body

    run(scene())


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), MemoryError()])
def test_a_snapshot_that_fails_is_tried_again_later_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def away(self: MemoryStore, *rest: object) -> None:
        raise error

    async def scene() -> None:
        made = stage()
        monkeypatch.setattr(MemoryStore, "snapshot", away)

        assert (await made.attempt()).code is Exit.DONE
        assert 1 <= made.observer.heard.count("snapshot failed") <= 3

    run(scene())


def test_a_fenced_snapshot_ends_the_attempt() -> None:
    async def scene() -> None:
        made = stage()
        plain = made.offload

        async def taken_over(work: Callable[[], Any]) -> Any:
            if "encode_state" in work.__code__.co_names:
                made.db.fence_off()
            return await plain(work)

        made.offload = taken_over

        assert (await made.attempt()).code is Exit.FENCED

    run(scene())


def test_large_values_of_a_snapshot_are_in_the_store_already() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.answer = lambda call: says("x" * 300_000 if call.call.turn == 1 else "ok")
        await made.attempt()

        assert made.db.snapshots
        for snapshot in made.db.snapshots:
            names = codec.blob_refs(snapshot.codec, snapshot.body)
            assert names
            assert set(names) <= set(made.db.blobs)

    run(scene())
