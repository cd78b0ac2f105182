"""A tool server that lost its state: the model is told, once, in a message that it really gets."""

from __future__ import annotations

import json

from tests.unit.run.pure_runner import PureRunner, asks, make_spec, says, text

from agentrun.run import boundaries, codec
from agentrun.run.fold import RUNNER
from agentrun.run.records import Json, progress
from agentrun.run.request import build_request
from agentrun.run.steps import CallModel
from agentrun.run.values import Boundary, Reply


def round_then_answer(turn: int, request: object) -> Reply:
    return asks("look", turn=1) if turn == 1 else text("done")


def until(runner: PureRunner, turns: int, step: type) -> PureRunner:
    while runner.state.totals.turns < turns or not isinstance(runner.steps()[0], step):
        runner.do(runner.steps()[0])
    return runner


def reset(runner: PureRunner, why: str = "restarted") -> Boundary:
    boundary = boundaries.environment_reset("ops", why)
    runner.commit(RUNNER, boundary.records)
    return boundary


def next_messages(runner: PureRunner) -> Json:
    return json.loads(build_request(runner.state, runner.spec, "main").body)["messages"]


def words(message: Json) -> str:
    return "\n".join(block.get("text", "") for block in message["content"])


def test_before_a_request_it_is_part_of_that_request_and_of_the_conversation_after_it() -> None:
    runner = until(PureRunner(make_spec(), round_then_answer).attempt(), 0, CallModel)
    reset(runner)
    assert "was restarted" in words(next_messages(runner)[0])
    runner.run()
    assert "was restarted" in words(runner.transcript[0])
    assert [words(message).count("was restarted") for message in runner.transcript] == [1, 0, 0, 0]


def test_in_a_round_it_comes_with_the_results() -> None:
    runner = PureRunner(make_spec(), round_then_answer).attempt()
    while runner.state.totals.turns == 0:
        runner.do(runner.steps()[0])
    reset(runner)
    runner.run()
    results = runner.transcript[2]["content"]
    assert [block["type"] for block in results] == ["tool_result", "text"]


def test_while_a_request_is_under_way_it_waits_for_the_message_after_the_reply() -> None:
    """The model has not read what came up after it was asked; the record must not say it has."""
    runner = until(PureRunner(make_spec(), round_then_answer).attempt(), 0, CallModel)
    request = build_request(runner.state, runner.spec, "main")
    reset(runner)
    reply = boundaries.after_model(runner.state, runner.spec, "main", request, asks("look", turn=1))
    runner.commit(RUNNER, reply.records)
    assert "was restarted" not in words(runner.transcript[0])
    runner.run()
    assert "was restarted" in words(runner.transcript[2])


def test_a_request_under_way_when_it_came_can_still_be_built_again() -> None:
    """`agentrun verify` rebuilds what was sent, not what would be sent now."""
    runner = until(PureRunner(make_spec(), round_then_answer).attempt(), 0, CallModel)
    request = build_request(runner.state, runner.spec, "main")
    reset(runner)
    assert build_request(runner.state, runner.spec, "main", request.notices) == request
    assert build_request(runner.state, runner.spec, "main") != request


def test_the_next_attempt_sends_the_same_request_with_it() -> None:
    runner = until(PureRunner(make_spec(), round_then_answer).attempt(), 1, CallModel)
    reset(runner)
    before = build_request(runner.state, runner.spec, "main")
    encoded = codec.encode_state(runner.state)
    runner.state = codec.decode_state(encoded.codec, encoded.body, encoded.blobs)
    assert build_request(runner.state, runner.spec, "main") == before
    runner.crash()
    assert build_request(runner.state, runner.spec, "main") == before


def test_after_a_paused_turn_it_is_a_message_of_its_own_and_the_bookmark_counts_it() -> None:
    paused = Reply([{"type": "text", "text": "…"}], (), "pause_turn", "m", "x", text("").usage)
    script = {1: paused, 2: asks("look", turn=2)}
    spec = make_spec(checkpoint={"position": "AfterModel"})
    runner = PureRunner(spec, lambda turn, _: script.get(turn, text("done"))).attempt()
    until(runner, 1, CallModel)
    reset(runner)
    runner.do(runner.steps()[0])
    assert [message["role"] for message in runner.transcript] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert runner.state.bookmark is not None
    assert runner.state.bookmark.message_count == len(runner.transcript)


def test_the_same_notice_is_given_once_however_often_the_pod_dies() -> None:
    runner = until(PureRunner(make_spec(), round_then_answer).attempt(), 1, CallModel)
    for _ in range(5):
        reset(runner)
        runner.crash()
    runner.run()
    assert sum(words(message).count("was restarted") for message in runner.transcript) == 1


def test_a_finished_conversation_is_not_told() -> None:
    runner = PureRunner(make_spec(), lambda turn, _: text("done")).attempt()
    while runner.state.totals.turns == 0:
        runner.do(runner.steps()[0])
    reset(runner)
    assert runner.state.conversations["main"].notices == []
    runner.run()
    assert runner.state.outcome is not None


def test_h30_what_every_attempt_of_a_crash_loop_begins_with_is_no_progress() -> None:
    """H30: three faults end a run that gets nowhere, although each attempt writes these."""
    runner = PureRunner(make_spec(), round_then_answer).attempt()
    runner.do(runner.steps()[0])
    offered = runner.boundaries[0]
    runner.spec = make_spec(
        toolPolicies=[{"tools": ["ops.*"], "onUnknown": "Ask"}], checkpoint={"position": "Both"}
    )
    while runner.state.totals.turns == 0:
        runner.do(runner.steps()[0])
    call = runner.state.conversations["main"].calls[0]
    started = boundaries.tool_started(runner.state, runner.spec, call.id, 1, 1000)
    assert started is not None
    for boundary in (offered, started, reset(runner)):
        assert not progress(boundary.records)
    for boundary in runner.boundaries[1:]:
        assert progress(boundary.records), boundary.kind
    assert progress(boundaries.after_tool(runner.state, call.id, says("x")).records)
    assert not progress([])
