"""Progress: what counts as some, and whether the loop's life is told to the lease."""

from __future__ import annotations

from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.runner.exits import Exit
from agentrun.runner.loop import Pace

STARTED = {"toolPolicies": [{"tools": ["ops.*"], "onUnknown": "Ask"}]}


def stage(**changes: object) -> Stage:
    return Stage(make_spec(**changes), lambda turn: (asks("look", turn=0), text("done"))[turn])


def test_h30_starts_and_requests_are_no_progress() -> None:
    """H30, the runner's part: only commits that bring the run forward are marked so."""

    async def scene() -> None:
        made = stage(**STARTED)
        await made.attempt()

        marked = dict(zip([c.kind for c in made.db.commits], made.db.progress, strict=True))
        assert not marked["attempt/start"]
        assert not marked["tool/start"]
        assert marked["assistant/message"]
        assert marked["tool/result"]
        assert marked["run/end"]

    run(scene())


def marks_at(made: Stage, *moments: float) -> list[int]:
    """How often progress had been marked at these moments; filled while the run goes on."""
    seen: list[int] = []
    for moment in moments:
        made.later(moment, lambda: made.store and seen.append(made.store.progress_marks))
    return seen


def test_a_tool_call_inside_its_own_timeout_is_progress() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.seconds = {"look": 50}
        marks = marks_at(made, 10, 40)
        await made.attempt()

        assert marks[1] > marks[0]

    run(scene())


def test_a_tool_call_past_its_timeout_is_none() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.seconds = {"look": 500}
        marks = marks_at(made, 100, 400)
        await made.attempt()

        assert marks[1] == marks[0]

    run(scene())


def test_a_model_call_that_says_nothing_is_none() -> None:
    async def scene() -> None:
        made = stage()
        made.model.seconds = 500
        marks = marks_at(made, 10, 400)
        await made.attempt()

        assert marks[1] == marks[0]

    run(scene())


def test_waiting_is_no_busy_loop() -> None:
    """One look per tick while nothing happens: the number grows with time alone."""

    async def scene() -> None:
        looks = []
        for seconds in (100, 200):
            made = stage()
            made.model.seconds = seconds
            await made.attempt()
            assert made.store is not None
            looks.append(made.store.looks)

        assert looks[1] <= 2.2 * looks[0]
        assert looks[0] <= 2 * 2 * 200 / Pace().tick

    run(scene())


def test_the_specs_stall_reaches_the_store_that_renews() -> None:
    async def scene() -> None:
        for stall in (5, 900, 2000):
            made = stage(lease={"ttlSeconds": 60, "stallSeconds": stall})
            await made.attempt()

            assert made.db.state == "Succeeded"
            assert made.store is not None
            assert made.store.stall == stall
            assert made.store.closed

    run(scene())


def test_a_stall_below_the_renewal_interval_is_no_lost_lease() -> None:
    """The age of a healthy lease grows to a third of the TTL between renewals."""

    async def scene() -> None:
        made = stage(lease={"ttlSeconds": 60, "stallSeconds": 1})
        made.model.seconds = 30
        made.kill.acts["before model"] = lambda: setattr(made.store, "renewing", False)
        made.kill.acts["after model"] = lambda: setattr(made.store, "renewing", True)

        assert (await made.attempt()).code is Exit.DONE

    run(scene())
