"""Models and tool servers that fail, hang, die, or say strange things."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import psycopg
import pytest
from tests.chaos.harness import oracle
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import TOOLSERVER, Grounds
from tests.chaos.harness.oracle import Trail
from tests.chaos.harness.reference import undisturbed
from tests.chaos.harness.scene import scene
from tests.chaos.harness.scenes import USAGE, everything
from tests.chaos.harness.stage import failpoint
from tests.peers.modelscripts import DONE, Script, call, error, raw_call, reply, script
from tests.peers.toolserver import lines

from agentrun.run.records import AssistantMessage, ToolCall, ToolResult, ToolUnknown
from agentrun.runner import failpoints

SAME_ID = "toolu_same"


def failing(times: int) -> Script:
    """``everything``, with so many overloads before the third turn."""
    overload = error(529, 2, times=times, retryAfter=0.05)
    return script(overload, *everything()["replies"])


@overlapping
async def test_an_overloaded_model_is_asked_again_within_the_attempt(shared: Grounds) -> None:
    async with scene(shared, failing(3)) as playing:
        found = await playing.ended()

    oracle.check_record(found)
    oracle.check_requests(found, await shared.once(undisturbed))
    oracle.check_same_end(found, await shared.once(undisturbed))
    assert found.row.attempt == 1
    outcomes = [line["outcome"] for line in found.asked if line["turn"] == 2]
    assert outcomes == ["error 529"] * 3 + ["reply"]


@overlapping
async def test_a_model_that_stays_away_suspends_the_run_and_it_resumes_by_itself(
    shared: Grounds,
) -> None:
    """The wait that it asked for is a minute, so the test lets the database believe it is over."""
    async with scene(shared, failing(2), model_retries=1) as playing:
        await playing.phase("Suspended", "ModelUnavailable")
        waiting = await playing.row()
        await asyncio.to_thread(_wait_is_over, shared.dsns.operator, waiting.run_uid)
        found = await playing.ended()

    assert (waiting.attempt, waiting.holder is not None) == (1, True)
    assert waiting.retry_at is not None
    assert waiting.retry_at > waiting.db_now
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, await shared.once(undisturbed))
    oracle.check_same_end(found, await shared.once(undisturbed))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 0, 0)


def _wait_is_over(dsn: str, uid: str) -> None:
    with psycopg.connect(dsn) as owner:
        statement = "UPDATE agentrun.run SET retry_at = clock_timestamp() WHERE run_uid = %s"
        assert owner.execute(statement, (uid,)).rowcount == 1


@overlapping
async def test_a_call_whose_server_dies_is_repeated_with_its_key_and_then_given_up(
    shared: Grounds,
) -> None:
    """The model is told that nobody knows; the server is a new one at every try."""
    folder = shared.folder("dies")
    effects = folder / "effects.jsonl"
    command = [sys.executable, str(TOOLSERVER), "--effects", str(effects)]
    dying = script(
        reply(0, text="Die.", tools=[call("die", effect=True)], usage=USAGE),
        reply(1, text=DONE, usage=USAGE),
    )
    async with scene(
        shared, dying, folder=folder, effects=effects, ops={"command": command}
    ) as playing:
        found = await playing.ended()

    _check_unknown(found)
    assert len(found.done) == 3


@overlapping
async def test_a_call_that_hangs_is_repeated_with_its_key_and_then_given_up(
    shared: Grounds,
) -> None:
    hanging = script(
        reply(0, text="Hang.", tools=[call("hang")], usage=USAGE),
        reply(1, text=DONE, usage=USAGE),
    )
    ops = {"url": shared.tools.url, "timeoutSeconds": 1}
    async with scene(shared, hanging, ops=ops) as playing:
        found = await playing.ended()

    _check_unknown(found)


def _check_unknown(found: Trail) -> None:
    assert (found.row.state, found.row.attempt) == ("Succeeded", 1)
    assert len(found.called) == 3
    assert len({line["key"] for line in found.called}) == 1
    assert len(found.of(ToolUnknown)) == 3
    results = [one.record for one in found.of(ToolResult)]
    assert [(result.origin, result.is_error) for result in results] == [("unknown", True)]
    oracle.check_record(found)


@pytest.mark.parametrize("turn", [2, 4])
@overlapping
async def test_a_workspace_whose_server_is_killed_gets_its_files_back(
    shared: Grounds, turn: int
) -> None:
    """In the middle of the attempt, between two of its calls: the model does not notice."""
    async with scene(shared, everything(turn_delay=0.5)) as playing:
        requests = playing.model.log

        async def asked() -> bool:
            return len(lines(requests)) >= turn

        await playing.stage.until(asked, f"turn {turn}", playing.name)
        holder = (await playing.row()).holder
        os.kill(playing.stage.workspace(holder or ""), signal.SIGKILL)
        found = await playing.ended()

    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, await shared.once(undisturbed))
    oracle.check_same_end(found, await shared.once(undisturbed))
    assert found.row.attempt == 1


def odd() -> Script:
    """What models and tools do say, although nobody expects it."""
    turns: list[list[dict[str, Any]]] = [
        [call("nul", id=SAME_ID), call("surrogate"), call("empty"), call("fail", message="")],
        [call("big", id=SAME_ID, bytes=8_000_000)],
        [call("images", count=30), call("structured", text=False)],
        [raw_call("echo", '{"text": "first", "text":"last\\u0000"}', id=SAME_ID)],
        [call("nowhere"), call("echo", text=5)],
        [call("charge", amount=1)],
    ]
    rules = [
        reply(
            turn, thinking=f"Signed thought {turn}.", text=f"Turn {turn}.", tools=tools, usage=USAGE
        )
        for turn, tools in enumerate(turns)
    ]
    return script(*rules, reply(len(turns), text=DONE, usage=USAGE))


async def _odd(shared: Grounds) -> Trail:
    async with scene(shared, odd()) as playing:
        return await playing.ended()


@overlapping
async def test_odd_content_is_kept_exactly(shared: Grounds) -> None:
    found = await shared.once(_odd)

    assert (found.row.state, found.row.attempt) == ("Succeeded", 1)
    oracle.check_record(found)
    results = {one.record.call: one.record for one in found.of(ToolResult)}
    contents = {name: result.content for name, result in results.items()}
    assert contents["main/1/1/0"] == [{"type": "text", "text": "before\x00after"}]
    assert results["main/1/1/3"].is_error
    assert contents["main/1/2/0"] == [{"type": "text", "text": "x" * 8_000_000}]
    assert len(contents["main/1/3/0"]) == 30
    asked = [one.record for one in found.of(ToolCall) if one.record.turn == 4]
    assert asked[0].arguments == {"text": "last\x00"}
    assert asked[0].raw == '{"text": "first", "text":"last\\u0000"}'
    assert contents["main/1/4/0"] == [{"type": "text", "text": "last\x00"}]
    origins = [results[f"main/1/5/{index}"].origin for index in (0, 1)]
    assert origins == ["unavailable", "invalid"]
    for one in found.of(AssistantMessage):
        if one.record.turn <= 6:
            assert one.record.content[0]["type"] == "thinking"
            assert one.record.content[0]["signature"]


@pytest.mark.parametrize("point", [f"{failpoints.AFTER_ROUND}:2", f"{failpoints.AFTER_REPLY}:7"])
@overlapping
async def test_odd_content_is_restored_exactly(shared: Grounds, point: str) -> None:
    folder = shared.folder("odd")
    environ = failpoint(folder, point)
    async with scene(shared, odd(), folder=folder, environ=environ) as playing:
        found = await playing.ended()

    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, await shared.once(_odd))
    oracle.check_same_end(found, await shared.once(_odd))
    assert found.row.attempt == 2


@overlapping
async def test_half_a_character_of_a_model_is_replaced_when_asking_again_does_not_help(
    shared: Grounds,
) -> None:
    halves = script(
        reply(
            0,
            text="half \ud800",
            tools=[raw_call("echo", '{"text": "a\\ud800b"}'), call("charge", amount=1)],
            usage=USAGE,
        ),
        reply(1, text=DONE, usage=USAGE),
    )
    async with scene(shared, halves, model_retries=1) as playing:
        found = await playing.ended()

    assert (found.row.state, found.row.attempt) == ("Succeeded", 1)
    assert [line["turn"] for line in found.asked] == [0, 0, 1]
    assert [line["args"] for line in found.done if line["tool"] == "echo"] == [{"text": "a\ufffdb"}]
    assert "\\ud800" not in oracle.messages(found.state).decode()
    oracle.check_record(found)
    oracle.check_effects(found)
