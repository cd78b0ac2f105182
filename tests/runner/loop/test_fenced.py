"""Fenced: stop at once, write nothing, release nothing."""

from __future__ import annotations

import pytest
from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import now, run
from tests.unit.run.pure_runner import make_spec

from agentrun.errors import StoreRefused, StoreRegressed
from agentrun.runner.exits import Exit

POINTS = (
    "before toolset/offered",
    "before task/status",
    "before assistant/message",
    "before tool/result",
    "before user/message",
    "before run/end",
)


def stage() -> Stage:
    return Stage(make_spec(), lambda turn: (asks("look", "fix", turn=0), text("done"))[turn])


@pytest.mark.parametrize("point", POINTS)
def test_fenced_at_an_append_nothing_is_written_and_the_exit_says_so(point: str) -> None:
    async def scene() -> None:
        made = stage()
        written: list[int] = []

        def taken_over() -> None:
            if not written:
                written.append(made.db.seq)
                made.db.fence_off()

        made.kill.acts[point] = taken_over
        ending = await made.attempt()

        assert ending.code is Exit.FENCED
        assert made.db.seq == written[0]
        assert made.db.state == "Active"
        assert not made.db.released

    run(scene())


def test_fenced_before_the_claim() -> None:
    async def scene() -> None:
        made = stage()
        made.db.mint()
        made.db.holder = "another pod"

        assert (await made.attempt(mint=False)).code is Exit.FENCED
        assert not made.model.requests

    run(scene())


def test_a_renewal_that_is_told_so_ends_a_long_model_call() -> None:
    async def scene() -> None:
        made = stage()
        made.model.seconds = 10_000
        made.later(10, made.db.fence_off)
        started = now()

        assert (await made.attempt()).code is Exit.FENCED
        assert now() - started < 20

    run(scene())


def test_a_call_under_way_is_left_to_the_successor() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.seconds = {"look": 10_000, "fix": 10_000}
        made.later(10, made.db.fence_off)

        assert (await made.attempt()).code is Exit.FENCED
        made.db.fence -= 1
        made.tools.seconds = {}
        await made.attempt()
        assert made.db.state == "Succeeded"
        assert set(made.tools.requests.values()) == {2}

    run(scene())


def test_a_store_that_went_backwards_stops_the_attempt_without_a_trace() -> None:
    async def scene() -> None:
        made = stage()

        def regress() -> None:
            assert made.store is not None
            made.store.lost = StoreRegressed("three commits are gone")

        made.model.seconds = 100
        made.later(10, regress)
        ending = await made.attempt()

        assert ending.code is Exit.RETRY
        assert ending.reason == "StoreRegressed"
        assert made.db.kinds == ["toolset/offered", "task/status"]

    run(scene())


def test_h2_a_commit_that_is_refused_for_good_stops_the_attempt_at_once() -> None:
    """H2: a permanent error is no outage to be waited out."""

    async def scene() -> None:
        made = stage()
        made.db.refuse = lambda commit: commit.kind == "tool/result"
        started = now()
        ending = await made.attempt()

        assert ending.code is Exit.FAILED
        assert ending.reason == "SaveFailed"
        assert now() - started < 5
        assert made.db.state == "Active", "the operator charges it and tries again"
        assert "user/message" not in made.db.kinds, "nothing that builds on it was written"

    run(scene())


def test_with_on_save_failure_fail_a_refused_commit_fails_the_run() -> None:
    async def scene() -> None:
        made = Stage(
            make_spec(checkpoint={"onSaveFailure": "Fail"}),
            lambda turn: (asks("look", "fix", turn=0), text("done"))[turn],
        )
        made.db.refuse = lambda commit: commit.kind == "tool/result"
        ending = await made.attempt()

        assert ending.code is Exit.FAILED
        assert made.db.state == "Failed"
        assert made.db.reason == "SaveFailed"
        assert len(made.model.requests) == 1

    run(scene())


def test_a_refused_outcome_is_no_loop() -> None:
    async def scene() -> None:
        made = Stage(make_spec(checkpoint={"onSaveFailure": "Fail"}), lambda turn: text("done"))
        made.db.refuse = lambda commit: True
        ending = await made.attempt()

        assert ending.code is Exit.FAILED
        assert isinstance(made.observer.store_errors[-1], StoreRefused)

    run(scene())
