"""Calls that were sent and not answered, and servers that cannot be reached."""

from __future__ import annotations

import asyncio

from tests.runner.loop.fakes import Stage, asks, says, text
from tests.runner.loop.memory import TTL
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.errors import ToolServerUnavailable
from agentrun.run.policy import RERUN_MAX
from agentrun.run.records import ToolUnknown
from agentrun.run.values import OutgoingCall, ToolOutcome, ToolSilence
from agentrun.runner.exits import Exit

STARTED = {"toolPolicies": [{"tools": ["ops.look"], "onUnknown": "Ask"}]}


def stage(**changes: object) -> Stage:
    return Stage(make_spec(**changes), lambda turn: (asks("look", turn=0), text("done"))[turn])


def silent_first(made: Stage, times: int) -> None:
    def answer(call: OutgoingCall) -> ToolOutcome:
        return ToolSilence("broken") if made.tools.requests[call.key] <= times else says("found")

    made.tools.answer = answer


def test_h3_a_silent_call_is_sent_again_with_the_same_key_within_the_attempt() -> None:
    """H3: the model never gets to retry under a new id; the tool sees one key."""

    async def scene() -> None:
        made = stage()
        silent_first(made, 1)
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert list(made.tools.requests.values()) == [2]
        assert made.db.kinds.count("tool/unknown") == 1
        assert made.db.kinds.count("tool/result") == 1
        assert made.observer.heard == ["toolset sre 2", "silent Rerun"]
        assert len(made.model.requests) == 2

    run(scene())


def test_re_runs_are_bounded_and_then_the_model_is_told() -> None:
    async def scene() -> None:
        made = stage()
        silent_first(made, 100)
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert list(made.tools.requests.values()) == [RERUN_MAX]
        assert "may or may not" in str(made.db.transcript)
        unknown = [r.ordinal for r in made.db.records() if isinstance(r, ToolUnknown)]
        assert unknown == [1, 2, 3]

    run(scene())


def test_the_bound_holds_across_attempts() -> None:
    async def scene() -> None:
        made = stage()
        silent_first(made, 100)
        made.kill.at = None
        passed = made.kill.passed
        made.kill.acts["after tool/unknown"] = lambda: setattr(made.kill, "at", len(passed))
        await made.attempt()
        made.kill.at, made.kill.acts = None, {}
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert list(made.tools.requests.values()) == [RERUN_MAX]

    run(scene())


def test_a_call_whose_outcome_matters_is_sent_only_after_its_start_is_durable() -> None:
    async def scene() -> None:
        made = stage(**STARTED)
        seen: list[str] = []

        async def look_around(call: OutgoingCall) -> None:
            seen.append(made.db.kinds[-1])

        made.tools.before_send = look_around
        await made.attempt()

        assert seen == ["tool/start"]
        assert made.db.state == "Succeeded"

    run(scene())


def test_h66_a_call_queued_for_long_after_its_start_is_not_sent_and_is_unknown() -> None:
    """H66, the loop's part: past two thirds of the TTL the successor may already be asking."""

    async def scene() -> None:
        made = stage(**STARTED)
        waits = iter([TTL, 0.0, 0.0])

        async def queue(call: OutgoingCall) -> None:
            await asyncio.sleep(next(waits))

        made.tools.before_send = queue
        await made.attempt()

        kinds = made.db.kinds
        assert kinds[kinds.index("tool/start") + 1] == "tool/unknown"
        assert kinds.count("tool/unknown") == 1
        assert list(made.tools.requests.values()) == [1], "sent once, in time, after its new start"

    run(scene())


def test_a_started_call_whose_server_is_away_is_unknown_only_when_its_time_is_over() -> None:
    async def scene() -> None:
        made = stage(**STARTED)
        tries = iter([True, True, False])
        made.tools.away = lambda server: (
            ToolServerUnavailable("away")
            if "tool/start" in made.db.kinds and next(tries, False)
            else None
        )
        await made.attempt()

        assert "tool/unknown" not in made.db.kinds
        assert made.db.state == "Succeeded"

    run(scene())


def test_a_server_that_stays_away_suspends_the_run_and_it_goes_on_later() -> None:
    async def scene() -> None:
        made = stage()
        away = [False]
        made.tools.away = lambda server: ToolServerUnavailable("refused") if away[0] else None
        made.kill.acts["after assistant/message"] = lambda: away.__setitem__(0, True)
        ending = await made.attempt()

        assert ending.code is Exit.DONE
        assert made.db.state == "Suspended"
        assert made.db.reason == "ToolServerUnavailable"
        assert made.db.wait_ms > 0
        assert not made.tools.requests

        away[0] = False
        made.kill.acts = {}
        await made.attempt()
        assert made.db.state == "Succeeded"
        assert len(made.model.requests) == 2

    run(scene())


def test_an_error_answer_is_an_answer() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.answer = lambda call: says("no such service", is_error=True)
        await made.attempt()

        assert list(made.tools.requests.values()) == [1]
        assert "tool/unknown" not in made.db.kinds
        assert made.db.transcript[2]["content"][0]["is_error"] is True

    run(scene())
