"""SIGTERM: finish what is short, commit it, release, leave."""

from __future__ import annotations

import asyncio

from tests.runner.loop.fakes import GRACE, Stage, asks, says, text
from tests.runner.loop.virtual import now, run
from tests.unit.run.pure_runner import make_spec

from agentrun.run.values import ToolSilence
from agentrun.runner.drain import MARGIN
from agentrun.runner.exits import Exit


def stage(**seconds: float) -> Stage:
    made = Stage(make_spec(), lambda turn: (asks("look", turn=0), text("done"))[turn])
    made.tools.seconds = seconds
    return made


def sigterm(made: Stage, after: float) -> None:
    made.later(after, lambda: made.drain and made.drain.begin())


def test_a_model_call_is_given_up_and_nothing_of_it_is_committed() -> None:
    async def scene() -> None:
        made = stage()
        made.model.seconds = 100
        sigterm(made, 5)
        started = now()
        ending = await made.attempt()

        assert ending is not None
        assert ending.code is Exit.DRAINED
        assert now() - started < 10
        assert made.db.released
        assert "assistant/message" not in made.db.kinds
        assert made.observer.heard.count("discarded") == 1

        made.model.seconds = 0
        assert (await made.attempt()).code is Exit.DONE

    run(scene())


def test_a_short_call_finishes_and_is_committed_and_nothing_new_starts() -> None:
    async def scene() -> None:
        made = stage(look=10)
        sigterm(made, 5)
        ending = await made.attempt()

        assert ending.code is Exit.DRAINED
        assert "tool/result" in made.db.kinds
        assert len(made.model.requests) == 1
        assert made.db.released

        made.tools.seconds = {}
        await made.attempt()
        assert list(made.tools.effects.values()) == [1]
        assert made.db.state == "Succeeded"

    run(scene())


def test_a_long_call_is_left_behind_when_the_grace_period_ends() -> None:
    async def scene() -> None:
        made = stage(look=1000)
        sigterm(made, 5)
        started = now()
        ending = await made.attempt()

        assert ending.code is Exit.DRAINED
        assert GRACE - MARGIN <= now() - started - 5 < GRACE
        assert "tool/result" not in made.db.kinds
        assert made.db.released

    run(scene())


def test_an_error_produced_while_draining_is_not_committed() -> None:
    async def scene() -> None:
        for outcome in (says("shutting down", is_error=True), ToolSilence("gone")):
            made = stage(look=10)
            made.tools.answer = lambda call, outcome=outcome: outcome
            sigterm(made, 5)

            assert (await made.attempt()).code is Exit.DRAINED
            assert not {"tool/result", "tool/unknown"} & set(made.db.kinds)

    run(scene())


def test_a_run_that_only_lacks_its_outcome_gets_it() -> None:
    async def scene() -> None:
        made = Stage(make_spec(agents=[{"name": "sre"}]), lambda turn: text("done"))
        made.kill.acts["after assistant/message"] = lambda: made.drain and made.drain.begin()

        assert (await made.attempt()).code is Exit.DONE
        assert made.db.state == "Succeeded"

    run(scene())


def test_sigterm_while_the_claim_waits_for_the_store() -> None:
    async def scene() -> None:
        made = stage()
        made.db.mint()
        made.db.take_away()
        sigterm(made, 5)

        assert (await made.attempt(mint=False)).code is Exit.DRAINED
        assert made.db.holder is None
        assert not made.db.released

    run(scene())


def test_sigterm_while_the_store_is_away_does_not_outlast_the_grace_period() -> None:
    async def scene() -> None:
        made = stage()
        made.later(1, made.db.take_away)
        made.model.seconds = 2
        sigterm(made, 5)
        started = now()
        ending = await made.attempt()

        assert ending.code is Exit.DRAINED
        assert now() - started - 5 <= GRACE
        assert not made.db.released

    run(scene())


def test_a_second_sigterm_changes_nothing() -> None:
    async def scene() -> None:
        made = stage(look=1000)
        sigterm(made, 5)
        sigterm(made, 20)
        started = now()
        await made.attempt()

        assert now() - started < 5 + GRACE

    run(scene())


def test_a_call_that_has_not_left_is_not_waited_for() -> None:
    async def scene() -> None:
        made = stage()
        never = asyncio.Event()
        made.tools.before_send = lambda call: never.wait()
        sigterm(made, 5)
        started = now()

        assert (await made.attempt()).code is Exit.DRAINED
        assert now() - started < 10
        assert not made.tools.requests

    run(scene())


def test_a_rim_that_does_not_close_delays_neither_release_nor_exit() -> None:
    async def scene() -> None:
        made = stage(look=1000)
        never = asyncio.Event()
        released: list[bool] = []

        async def hang() -> None:
            released.append(made.db.released)
            await never.wait()

        made.tools.close = hang  # type: ignore[method-assign]
        sigterm(made, 5)
        started = now()

        assert (await made.attempt()).code is Exit.DRAINED
        assert released == [True]
        assert now() - started - 5 <= GRACE

    run(scene())
