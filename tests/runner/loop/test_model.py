"""Model calls: errors of the provider, and what an attempt sends after it was replaced."""

from __future__ import annotations

from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.errors import InvalidSpec, ModelRefused, ModelUnavailable
from agentrun.runner.exits import Exit


def stage(**changes: object) -> Stage:
    return Stage(make_spec(**changes), lambda turn: (asks("look", turn=0), text("done"))[turn])


def test_a_refused_request_fails_the_run() -> None:
    async def scene() -> None:
        made = stage()
        made.model.fail = lambda turn: ModelRefused("prompt is too long")
        ending = await made.attempt()

        assert ending.code is Exit.FAILED
        assert made.db.state == "Failed"
        assert made.db.reason == "ModelError"
        assert "too long" in made.db.message

    run(scene())


def test_h34_an_outage_suspends_the_run_and_it_resumes_by_itself() -> None:
    async def scene() -> None:
        made = stage()
        made.model.fail = lambda turn: ModelUnavailable("overloaded")
        ending = await made.attempt()

        assert ending.code is Exit.DONE
        assert made.db.state == "Suspended"
        assert made.db.reason == "ModelUnavailable"
        assert made.db.wait_ms > 0

        made.model.fail = lambda turn: None
        await made.attempt()
        assert made.db.state == "Succeeded"

    run(scene())


def test_h34_the_provider_is_not_asked_again_before_it_wants_to_be() -> None:
    async def scene() -> None:
        made = stage()
        made.model.fail = lambda turn: ModelUnavailable("429", retry_after=1800)
        await made.attempt()
        assert made.db.wait_ms == 1_800_000

        never = stage()
        never.model.fail = lambda turn: ModelUnavailable("429", retry_after=1e300)
        await never.attempt()
        assert never.db.wait_ms == 86_400_000

    run(scene())


def test_h34_a_key_that_never_worked_fails_and_one_that_did_suspends() -> None:
    async def scene() -> None:
        never = stage()
        never.model.fail = lambda turn: ModelUnavailable("401", auth=True)
        await never.attempt()
        assert never.db.state == "Failed"

        rotated = stage()
        rotated.model.fail = lambda turn: ModelUnavailable("401", auth=True) if turn else None
        await rotated.attempt()
        assert rotated.db.state == "Suspended"
        assert rotated.db.totals.turns == 1

    run(scene())


def test_the_next_attempt_sends_what_the_dead_one_would_have_sent() -> None:
    async def scene() -> None:
        made = stage()
        made.model.seconds = 10
        made.kill.acts["before model"] = lambda: None
        made.later(15, lambda: made.drain and made.drain.begin())
        await made.attempt()
        made.model.seconds = 0
        await made.attempt()

        turn, sent = made.model.requests[-2]
        assert (turn, sent) == made.model.requests[-1]
        assert turn == 1

    run(scene())


def test_a_model_that_cannot_be_opened_is_bad_configuration() -> None:
    async def scene() -> None:
        made = stage()

        def broken() -> None:
            raise InvalidSpec("model.caBundle cannot be read")

        made.adapters.opening = broken
        ending = await made.attempt()

        assert ending.code is Exit.CONFIG
        assert ending.reason == "InvalidSpec"
        assert "caBundle" in ending.message

    run(scene())


def test_at_most_one_request_is_under_way_for_a_conversation() -> None:
    async def scene() -> None:
        made = stage()
        made.model.seconds = 30
        await made.attempt()

        assert [turn for turn, _ in made.model.requests] == [0, 1]

    run(scene())


def test_a_live_stream_is_progress() -> None:
    async def scene() -> None:
        made = stage()
        made.model.seconds = 100
        await made.attempt()
        assert made.store is not None
        before = made.store.progress_marks

        made.adapters.progress()

        assert made.store.progress_marks == before + 1

    run(scene())
