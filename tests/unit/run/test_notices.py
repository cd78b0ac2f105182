"""A tool server that lost its state: the model is told, once, in a message that it really gets."""

from __future__ import annotations

import json

from tests.unit.run.play import Play, asks, make_spec, says, text

from agentrun.run import boundaries, codec
from agentrun.run.fold import RUNNER
from agentrun.run.records import Json, progress
from agentrun.run.request import build_request
from agentrun.run.steps import CallModel
from agentrun.run.values import Boundary, Reply


def round_then_answer(turn: int, request: object) -> Reply:
    return asks("look", turn=1) if turn == 1 else text("done")


def until(play: Play, turns: int, step: type) -> Play:
    while play.state.totals.turns < turns or not isinstance(play.steps()[0], step):
        play.do(play.steps()[0])
    return play


def reset(play: Play, why: str = "restarted") -> Boundary:
    boundary = boundaries.environment_reset("ops", why)
    play.commit(RUNNER, boundary.records)
    return boundary


def next_messages(play: Play) -> Json:
    return json.loads(build_request(play.state, play.spec, "main").body)["messages"]


def words(message: Json) -> str:
    return "\n".join(block.get("text", "") for block in message["content"])


def test_before_a_request_it_is_part_of_that_request_and_of_the_conversation_after_it() -> None:
    play = until(Play(make_spec(), round_then_answer).attempt(), 0, CallModel)
    reset(play)
    assert "was restarted" in words(next_messages(play)[0])
    play.run()
    assert "was restarted" in words(play.transcript[0])
    assert [words(message).count("was restarted") for message in play.transcript] == [1, 0, 0, 0]


def test_in_a_round_it_comes_with_the_results() -> None:
    play = Play(make_spec(), round_then_answer).attempt()
    while play.state.totals.turns == 0:
        play.do(play.steps()[0])
    reset(play)
    play.run()
    results = play.transcript[2]["content"]
    assert [block["type"] for block in results] == ["tool_result", "text"]


def test_while_a_request_is_under_way_it_waits_for_the_message_after_the_reply() -> None:
    """The model has not read what came up after it was asked; the record must not say it has."""
    play = until(Play(make_spec(), round_then_answer).attempt(), 0, CallModel)
    request = build_request(play.state, play.spec, "main")
    reset(play)
    reply = boundaries.after_model(play.state, play.spec, "main", request, asks("look", turn=1))
    play.commit(RUNNER, reply.records)
    assert "was restarted" not in words(play.transcript[0])
    play.run()
    assert "was restarted" in words(play.transcript[2])


def test_a_request_under_way_when_it_came_can_still_be_built_again() -> None:
    """`agentrun verify` rebuilds what was sent, not what would be sent now."""
    play = until(Play(make_spec(), round_then_answer).attempt(), 0, CallModel)
    request = build_request(play.state, play.spec, "main")
    reset(play)
    assert build_request(play.state, play.spec, "main", request.notices) == request
    assert build_request(play.state, play.spec, "main") != request


def test_the_next_attempt_sends_the_same_request_with_it() -> None:
    play = until(Play(make_spec(), round_then_answer).attempt(), 1, CallModel)
    reset(play)
    before = build_request(play.state, play.spec, "main")
    encoded = codec.encode_state(play.state)
    play.state = codec.decode_state(encoded.codec, encoded.body, encoded.blobs)
    assert build_request(play.state, play.spec, "main") == before
    play.crash()
    assert build_request(play.state, play.spec, "main") == before


def test_after_a_paused_turn_it_is_a_message_of_its_own_and_the_bookmark_counts_it() -> None:
    paused = Reply([{"type": "text", "text": "…"}], (), "pause_turn", "m", "x", text("").usage)
    script = {1: paused, 2: asks("look", turn=2)}
    spec = make_spec(checkpoint={"position": "AfterModel"})
    play = Play(spec, lambda turn, _: script.get(turn, text("done"))).attempt()
    until(play, 1, CallModel)
    reset(play)
    play.do(play.steps()[0])
    assert [message["role"] for message in play.transcript] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert play.state.bookmark is not None
    assert play.state.bookmark.message_count == len(play.transcript)


def test_the_same_notice_is_given_once_however_often_the_pod_dies() -> None:
    play = until(Play(make_spec(), round_then_answer).attempt(), 1, CallModel)
    for _ in range(5):
        reset(play)
        play.crash()
    play.run()
    assert sum(words(message).count("was restarted") for message in play.transcript) == 1


def test_a_finished_conversation_is_not_told() -> None:
    play = Play(make_spec(), lambda turn, _: text("done")).attempt()
    while play.state.totals.turns == 0:
        play.do(play.steps()[0])
    reset(play)
    assert play.state.conversations["main"].notices == []
    play.run()
    assert play.state.outcome is not None


def test_h30_what_every_attempt_of_a_crash_loop_begins_with_is_no_progress() -> None:
    """H30: three faults end a run that gets nowhere, although each attempt writes these."""
    play = Play(make_spec(), round_then_answer).attempt()
    play.do(play.steps()[0])
    offered = play.boundaries[0]
    play.spec = make_spec(
        toolPolicies=[{"tools": ["ops.*"], "onUnknown": "Ask"}], checkpoint={"position": "Both"}
    )
    while play.state.totals.turns == 0:
        play.do(play.steps()[0])
    call = play.state.conversations["main"].calls[0]
    started = boundaries.tool_started(play.state, play.spec, call.id, 1, 1000)
    assert started is not None
    for boundary in (offered, started, reset(play)):
        assert not progress(boundary.records)
    for boundary in play.boundaries[1:]:
        assert progress(boundary.records), boundary.kind
    assert progress(boundaries.after_tool(play.state, call.id, says("x")).records)
    assert not progress([])
