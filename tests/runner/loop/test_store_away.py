"""The store does not answer: what still may be done, for how long, and what becomes of results."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.memory import TTL
from tests.runner.loop.virtual import now, run
from tests.unit.run.pure_runner import make_spec

from agentrun.run.values import OutgoingCall
from agentrun.runner.exits import Exit

STALL = 900


def stage(**changes: object) -> Stage:
    """Many rounds of one call that takes a second."""
    made = Stage(
        make_spec(**changes),
        lambda turn: asks("look", turn=turn) if turn < 40 else text("done"),
    )
    made.tools.seconds = {"look": 1.0}
    return made


class Diary:
    """When calls left, on the virtual clock."""

    def __init__(self, made: Stage) -> None:
        self.models: list[float] = []
        self.tools: list[float] = []
        made.kill.acts["before model"] = lambda: self.models.append(now())
        made.kill.acts["before look"] = lambda: self.tools.append(now())


def test_a_short_outage_costs_nothing_but_time() -> None:
    async def scene() -> None:
        made = stage()
        made.later(5.5, made.db.take_away)
        made.later(5.5 + TTL / 3, made.db.give_back)

        assert (await made.attempt()).code is Exit.DONE
        assert made.db.state == "Succeeded"
        assert set(made.tools.requests.values()) == {1}
        assert len(made.model.requests) == 41

    run(scene())


def test_a_result_is_kept_and_the_run_goes_on_with_the_model() -> None:
    """onSaveFailure Continue: after some patience the next model call leaves, the result waits."""

    async def scene() -> None:
        made = stage()
        diary = Diary(made)
        gone = now() + 5.5
        made.later(5.5, made.db.take_away)
        made.later(5.5 + 35, made.db.give_back)
        await made.attempt()

        during = [at for at in diary.models if gone < at < gone + 35]
        assert len(during) == 1, "its reply asks for calls, which is strict: no further"
        assert made.db.state == "Succeeded"
        assert set(made.tools.requests.values()) == {1}

    run(scene())


def test_h2_no_call_leaves_past_two_thirds_of_the_ttl_of_uncommitted_tail() -> None:
    """H2: appends fail for good while the heartbeat goes on."""

    async def scene() -> None:
        made = stage()
        diary = Diary(made)
        stuck = now() + 5.5
        made.later(5.5, made.stick)
        ending = await made.attempt()

        assert ending.code is Exit.RETRY
        assert ending.reason == "StoreUnavailable"
        assert max(diary.models + diary.tools) <= stuck + 1 + TTL * 2 / 3
        assert now() - stuck >= STALL
        assert made.store is not None
        assert made.store.lease_age() == 0, "renewals were answered all the time"

    run(scene())


def test_h2_not_even_calls_whose_replies_may_wait() -> None:
    """Only what is strict stops earlier: paused turns go on until the oldest commit is too old."""

    async def scene() -> None:
        made = Stage(make_spec(), lambda turn: replace(text("go on"), stop_reason="pause_turn"))
        made.model.seconds = 2.0
        diary = Diary(made)
        refused: list[float] = []
        made.kill.acts["before assistant/message"] = lambda: refused.append(now())
        made.later(5, made.stick)
        assert (await made.attempt()).code is Exit.RETRY

        oldest = refused[-1]
        late = [at - oldest for at in diary.models if at > oldest]
        assert late, "the run goes on for a while"
        assert max(late) <= TTL * 2 / 3

    run(scene())


def test_h2_nor_a_call_that_was_queued_before() -> None:
    """Checked again right before it leaves."""

    async def scene() -> None:
        made = Stage(make_spec(), lambda turn: (asks("look", "fix", turn=0), text("done"))[turn])
        made.kill.acts["before tool/result"] = made.stick

        async def queue(call: OutgoingCall) -> None:
            await asyncio.sleep(TTL if call.tool == "fix" else 1.0)

        made.tools.before_send = queue
        await made.attempt()

        assert made.tools.order == ["look"]
        assert made.store is not None
        assert made.store.lease_age() == 0

    run(scene())


def test_h2_a_call_that_waited_is_not_sent_past_two_thirds_of_the_ttl_without_an_answer() -> None:
    """Checked again right before a call leaves, and sent when it may be."""

    async def scene() -> None:
        made = Stage(make_spec(), lambda turn: (asks("look", turn=0), text("done"))[turn])
        sent: list[float] = []

        async def queue(call: object) -> None:
            await asyncio.sleep(1.0 if sent else 60.0)
            sent.append(now())

        made.tools.before_send = queue
        gone = now() + 5
        made.later(5, made.db.take_away)
        made.later(100, made.db.give_back)
        await made.attempt()

        assert len(sent) == 2
        assert sent[1] > gone + 95
        assert list(made.tools.requests.values()) == [1]
        assert made.db.state == "Succeeded"
        assert "tool/unknown" not in made.db.kinds, "nothing was sent, so nothing is unknown"

    run(scene())


def test_past_the_ttl_it_idles_and_goes_on_when_the_store_is_back() -> None:
    async def scene() -> None:
        made = stage()
        made.later(5.5, made.db.take_away)
        made.later(5.5 + 3 * TTL, made.db.give_back)

        assert (await made.attempt()).code is Exit.DONE
        assert made.db.attempt == 1
        assert set(made.tools.requests.values()) == {1}

    run(scene())


def test_after_stall_seconds_it_gives_up() -> None:
    async def scene() -> None:
        made = stage(lease={"ttlSeconds": 60, "stallSeconds": 200})
        gone = now() + 5.5
        made.later(5.5, made.db.take_away)
        ending = await made.attempt()

        assert ending.code is Exit.RETRY
        assert 200 <= now() - gone < 230
        assert not made.db.released

        made.db.give_back()
        await made.attempt()
        assert made.db.state == "Succeeded"

    run(scene())


def test_with_on_save_failure_fail_nothing_goes_on_without_its_commit() -> None:
    async def scene() -> None:
        made = stage(checkpoint={"onSaveFailure": "Fail"})
        diary = Diary(made)
        gone = now() + 5.5
        made.later(5.5, made.db.take_away)
        made.later(5.5 + 30, made.db.give_back)
        await made.attempt()

        assert [at for at in diary.models + diary.tools if gone + 1 < at < gone + 30] == []
        assert made.db.state == "Succeeded"

    run(scene())


def test_with_on_save_failure_fail_a_long_outage_fails_the_run_loudly() -> None:
    async def scene() -> None:
        made = stage(checkpoint={"onSaveFailure": "Fail"})
        made.later(5.5, made.db.take_away)
        made.later(5.5 + TTL, made.db.give_back)
        ending = await made.attempt()

        assert ending.code is Exit.FAILED
        assert made.db.state == "Failed"
        assert made.db.reason == "SaveFailed"

    run(scene())


def test_a_failure_that_can_never_be_written_is_told_by_the_exit() -> None:
    async def scene() -> None:
        made = stage(checkpoint={"onSaveFailure": "Fail"})
        made.later(5.5, made.db.take_away)
        ending = await made.attempt()

        assert ending.code is Exit.CONFIG
        assert ending.reason == "SaveFailed"

    run(scene())


def test_the_store_is_away_from_the_beginning() -> None:
    async def scene() -> None:
        made = stage()
        made.db.mint()
        made.db.take_away()
        made.later(300, made.db.give_back)

        assert (await made.attempt(mint=False)).code is Exit.DONE

    run(scene())


def test_what_waits_lands_in_the_order_of_the_fold() -> None:
    async def scene() -> None:
        made = Stage(
            make_spec(),
            lambda turn: (asks("look", "fix", turn=0), text("done"))[turn],
        )
        made.tools.seconds = {"look": 2.0, "fix": 1.0}
        made.later(0.5, made.db.take_away)
        made.later(0.5 + 30, made.db.give_back)
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert made.db.kinds[2:] == [
            "assistant/message",
            "tool/result",
            "tool/result",
            "user/message",
            "assistant/message",
            "task/status",
            "run/end",
        ]

    run(scene())
