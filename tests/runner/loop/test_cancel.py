"""Cancel: stop at once, commit nothing that was produced meanwhile, write the outcome."""

from __future__ import annotations

import asyncio

from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import now, run
from tests.unit.run.pure_runner import make_spec

from agentrun.run.values import OutgoingCall
from agentrun.runner.exits import Exit
from agentrun.store.rows import Requested


def stage() -> Stage:
    return Stage(make_spec(), lambda turn: (asks("look", "fix", turn=0), text("done"))[turn])


def cancel(made: Stage, reason: str = "User") -> None:
    made.db.requested, made.db.requested_reason = Requested.CANCEL, reason


def test_h27_in_flight_calls_are_aborted_and_the_run_is_cancelled() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.seconds = {"look": 500, "fix": 1}
        made.later(10, lambda: cancel(made))
        started = now()
        ending = await made.attempt()

        assert ending.code is Exit.DONE
        assert now() - started < 20
        assert made.db.state == "Cancelled"
        assert made.db.reason == "CancelledByUser"
        assert made.db.kinds.count("tool/result") == 1, "what was committed before is kept"

    run(scene())


def test_a_model_call_is_aborted_and_its_reply_is_not_committed() -> None:
    async def scene() -> None:
        made = stage()
        made.model.seconds = 500
        made.later(10, lambda: cancel(made))

        await made.attempt()
        assert made.db.state == "Cancelled"
        assert "assistant/message" not in made.db.kinds

    run(scene())


def test_h27_a_call_that_ignores_cancellation_is_not_waited_for_for_ever() -> None:
    """H27: the wait for a hung tool is bounded, and what it still says is not committed."""

    async def scene() -> None:
        made = stage()

        async def stubborn(call: OutgoingCall) -> None:
            while True:
                try:
                    await asyncio.sleep(3600)
                    return
                except asyncio.CancelledError:
                    continue

        made.tools.hook = stubborn
        made.later(10, lambda: cancel(made))
        started = now()
        ending = await made.attempt()

        assert ending.code is Exit.DONE
        assert made.db.state == "Cancelled"
        assert now() - started < 60
        await asyncio.sleep(10_000)
        assert "tool/result" not in made.db.kinds

    run(scene())


def test_h27_a_passed_deadline_is_no_cancellation() -> None:
    """H27: the reason is carried into the outcome."""

    async def scene() -> None:
        for reason, outcome in (
            ("Deadline", "DeadlineExceeded"),
            ("Budget", "BudgetExceeded"),
        ):
            made = stage()
            cancel(made, reason)
            ending = await made.attempt()

            assert ending.code is Exit.FAILED
            assert made.db.state == "Failed"
            assert made.db.reason == outcome

    run(scene())


def test_h27_a_result_that_arrives_while_cancelling_is_not_committed() -> None:
    async def scene() -> None:
        made = stage()
        answered = asyncio.Event()

        async def slow_to_stop(call: OutgoingCall) -> None:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                answered.set()

        made.tools.hook = slow_to_stop
        made.later(10, lambda: cancel(made))
        await made.attempt()

        assert answered.is_set()
        assert made.db.state == "Cancelled"
        assert "tool/result" not in made.db.kinds

    run(scene())


def test_a_run_that_ended_first_stays_as_it_ended() -> None:
    async def scene() -> None:
        made = stage()
        made.kill.acts["before run/end"] = lambda: cancel(made)

        assert (await made.attempt()).code is Exit.DONE
        assert made.db.state == "Succeeded"

    run(scene())


def test_work_that_waits_for_the_store_lands_before_the_outcome() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.seconds = {"look": 500, "fix": 1}
        made.later(0.9, made.db.take_away)
        made.later(5, lambda: cancel(made))
        made.later(30, made.db.give_back)

        await made.attempt()
        assert made.db.kinds[-2:] == ["tool/result", "run/end"]

    run(scene())
