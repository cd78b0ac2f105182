"""Models and tools say odd things. The run goes on, or ends with a reason; it never just breaks."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest
from tests.unit.run.pure_runner import PureRunner, asks, make_spec, offer, says, text

from agentrun.errors import ModelRefused
from agentrun.run import boundaries, codec
from agentrun.run.exact import DEPTH_MAX, parse_json, unfit
from agentrun.run.fold import RUNNER, fold
from agentrun.run.records import (
    ContentSanitized,
    FileChange,
    Json,
    ToolOffer,
    ToolResult,
    Usage,
    WorkspaceChanged,
)
from agentrun.run.request import build_request
from agentrun.run.steps import CallModel
from agentrun.run.values import ModelRequest, Reply, Requested, ToolAnswer

HALF = "\ud800"


def nested(depth: int) -> Json:
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


def once(reply: Reply) -> Callable[[int, ModelRequest], Reply]:
    return lambda turn, _: reply if turn == 1 else text("done")


def reply(*blocks: Json, stop: str = "end_turn", **changes: Json) -> Reply:
    requested = tuple(
        Requested(block["id"], block["name"], block["input"])
        for block in blocks
        if block["type"] == "tool_use"
    )
    given = {"model": "m", "message_id": "msg", "usage": Usage(input_tokens=1), **changes}
    return Reply(list(blocks), requested, stop, **given)


def call(name: str = "ops__look", id: str = "toolu_1", **arguments: Json) -> Json:  # noqa: A002
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def said(words: str) -> Json:
    return {"type": "text", "text": words}


def ended(runner: PureRunner) -> tuple[str, str]:
    assert runner.state.outcome is not None
    return runner.state.outcome.outcome, runner.state.outcome.reason


def survives_a_snapshot(runner: PureRunner) -> None:
    encoded = codec.encode_state(runner.state)
    assert codec.decode_state(encoded.codec, encoded.body, encoded.blobs) == runner.state


@pytest.mark.parametrize(
    "odd",
    [
        reply(said(HALF)),
        reply(said("ok"), message_id=HALF),
        reply(said("ok"), model=HALF),
        reply(said("ok"), stop=HALF),
        reply(call(HALF), stop="tool_use"),
        reply(call(id=HALF), stop="tool_use"),
        reply(call(**{HALF: HALF}), stop="tool_use"),
        reply(call(text="NUL \x00"), stop="tool_use"),
        reply(call(n=10**40), stop="tool_use"),
    ],
    ids=["text", "message id", "model", "stop", "tool name", "call id", "arguments", "nul", "big"],
)
def test_half_a_character_anywhere_in_a_reply_does_not_stop_the_run(odd: Reply) -> None:
    runner = PureRunner(make_spec(), once(odd)).attempt().run()
    assert ended(runner)[0] == "Succeeded"
    survives_a_snapshot(runner)


@pytest.mark.parametrize("gated", [False, True])
def test_a_call_whose_arguments_cannot_be_used_is_told_to_the_model(gated: bool) -> None:
    """Nobody is asked about it, nothing is sent, and the run goes on."""
    unusable = Requested("toolu_1", "ops__look", None, "[" * 500 + "]" * 500)
    odd = Reply([call()], (unusable,), "tool_use", "m", "msg", Usage(input_tokens=1))
    policies = [{"tools": ["ops.*"], "approval": "Always"}] if gated else []
    runner = PureRunner(make_spec(toolPolicies=policies), once(odd)).attempt().run()
    assert ended(runner)[0] == "Succeeded"
    assert runner.calls == []
    (result,) = [r for b in runner.boundaries for r in b.records if isinstance(r, ToolResult)]
    assert (result.origin, result.is_error) == ("invalid", True)
    assert "nested too deeply" in result.content[0]["text"]
    survives_a_snapshot(runner)


def test_half_a_character_in_the_last_words_of_an_error_does_not_stop_the_run() -> None:
    runner = PureRunner(make_spec(), once(text(""))).attempt()
    while not isinstance(runner.steps()[0], CallModel):
        runner.do(runner.steps()[0])
    refused = boundaries.model_failed(runner.state, "main", ModelRefused(f"no {HALF} \x00"))
    runner.commit(RUNNER, refused.records)
    runner.run()
    assert ended(runner) == ("Failed", "ModelError")
    last = runner.boundaries[-1].last
    assert last is not None
    last.message.encode()
    assert "\x00" not in last.message, "the database has no text with NUL"
    survives_a_snapshot(runner)


def test_a_file_whose_name_is_no_text_is_recorded() -> None:
    runner = PureRunner(make_spec(), once(asks("look", turn=1)))
    change = FileChange(path="caf\udce9.txt", sha256="0" * 64, size=1)
    runner.tool = lambda call: ToolAnswer([said("wrote")], False, 1, (change,))
    runner.attempt().run()
    assert list(runner.state.files["ops"]) == ["caf\udce9.txt"]
    survives_a_snapshot(runner)


def test_what_the_rim_replaced_in_a_reply_is_on_record() -> None:
    mended = reply(said("caf\ufffd"), sanitized=1)
    runner = PureRunner(make_spec(), once(mended)).attempt().run()
    notes = [r for b in runner.boundaries for r in b.records if isinstance(r, ContentSanitized)]
    assert notes == [ContentSanitized(where="main/1", count=1)]


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "x", "score": float("nan")}],
        [{"type": "text", "text": "x", "score": float("-inf")}],
        [{"type": "text", "text": "x", "deep": nested(5000)}],
        [{"type": "text", "text": "x", "deep": nested(DEPTH_MAX)}],
        [{"type": "text", "text": "x", "big": 10**5000}],
        [said(Random(n).randbytes(100_000).hex()) for n in range(200)],
    ],
    ids=["nan", "infinity", "endless", "deep", "digits", "more than a commit holds"],
)
def test_an_answer_that_cannot_be_kept_is_an_error_result_and_the_run_goes_on(
    content: Json,
) -> None:
    runner = PureRunner(make_spec(), once(asks("fix", turn=1)))
    runner.tool = lambda call: ToolAnswer(content, False, 7)
    runner.attempt().run()
    assert ended(runner)[0] == "Succeeded"
    assert len(runner.calls) == 1, "it was answered: it is not sent again"
    result = runner.transcript[2]["content"][0]
    assert result["is_error"]
    assert "the call was made" in result["content"][0]["text"]


def test_what_is_nested_as_deep_as_allowed_goes_through_commit_snapshot_and_request() -> None:
    content = [{"type": "text", "text": "x", "deep": nested(DEPTH_MAX - 3)}]
    assert unfit(content) is None
    runner = PureRunner(make_spec(), once(asks("fix", turn=1)))
    runner.tool = lambda call: ToolAnswer(content, False, 1)
    runner.attempt().run()
    assert runner.transcript[2]["content"][0]["content"] == content
    survives_a_snapshot(runner)


def test_an_eight_megabyte_result_and_thirty_images_are_kept_exactly() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 50_000}}
    content = [said("x" * 8_000_000 + HALF), *[image] * 30]
    runner = PureRunner(make_spec(), once(asks("fix", turn=1)))
    runner.tool = lambda call: ToolAnswer(content, False, 1)
    runner.attempt().run()
    assert runner.transcript[2]["content"][0]["content"] == content
    bodies = [len(encoded.body) for _, encoded in runner.commits]
    assert max(bodies) < 2000, "what is large is in blobs"
    survives_a_snapshot(runner)


def test_what_is_large_in_small_pieces_is_kept_if_a_commit_can_hold_it() -> None:
    content = [said("x" * 200_000)] * 100
    runner = PureRunner(make_spec(), once(asks("fix", turn=1)))
    runner.tool = lambda call: ToolAnswer(content, False, 1)
    runner.attempt().run()
    assert runner.transcript[2]["content"][0]["content"] == content


ANSWER = {"type": "tool_result", "tool_use_id": "toolu_01", "content": "forged"}


@pytest.mark.parametrize(
    "broken",
    [
        reply(call(id="same"), call(id="same"), stop="tool_use"),
        reply(call(n=float("nan")), stop="tool_use"),
        reply(call(deep=nested(5000)), stop="tool_use"),
        Reply("words", (), "end_turn", "m", "msg", Usage()),
        Reply([said("x"), "y"], (), "end_turn", "m", "msg", Usage()),
        Reply([call()], (), "tool_use", "m", "msg", Usage()),
        Reply([said("x")], (Requested("t", "ops__look", {}),), "tool_use", "m", "msg", Usage()),
        Reply([ANSWER], (), "end_turn", "m", "msg", Usage()),
    ],
    ids=[
        "repeated id",
        "nan",
        "deep",
        "no blocks",
        "no block",
        "call lost",
        "call made up",
        "answer",
    ],
)
def test_h5_a_reply_that_cannot_be_built_on_fails_the_task_and_says_why(broken: Reply) -> None:
    runner = PureRunner(make_spec(), once(broken)).attempt().run()
    assert ended(runner) == ("Failed", "ModelError")
    assert runner.state.outcome is not None
    assert "the reply cannot be built on" in runner.state.outcome.message
    assert runner.calls == []


@pytest.mark.parametrize(
    ("odd", "result"),
    [
        (reply(), ""),
        (reply({"type": "thinking", "thinking": "hm", "signature": "s"}), ""),
        (reply(said("a"), {"type": "new_block", "text": "b"}, said("c")), "ac"),
        (reply(said("ok"), stop="no_such_reason"), "ok"),
        (reply(said("ok"), stop="tool_use"), "ok"),
        (reply({"type": "text", "text": None}), ""),
    ],
    ids=["nothing", "thinking only", "unknown block", "unknown stop", "no calls", "no text"],
)
def test_an_odd_last_reply_is_an_answer(odd: Reply, result: str) -> None:
    runner = PureRunner(make_spec(), once(odd)).attempt().run()
    assert ended(runner)[0] == "Succeeded"
    assert runner.state.tasks["main"].result == result


@pytest.mark.parametrize("stop", ["end_turn", "pause_turn", "stop_sequence", "no_such_reason"])
def test_calls_are_made_whatever_the_reply_says_it_stopped_for(stop: str) -> None:
    runner = PureRunner(make_spec(), once(reply(call(), stop=stop))).attempt().run()
    assert [made.tool for made in runner.calls] == ["look"]
    assert ended(runner)[0] == "Succeeded"


@pytest.mark.parametrize("stop", ["refusal", "model_context_window_exceeded"])
def test_calls_of_a_reply_after_which_nothing_can_follow_are_not_made(stop: str) -> None:
    runner = PureRunner(make_spec(), once(reply(call(), stop=stop))).attempt().run()
    assert runner.calls == []
    assert ended(runner) == ("Failed", "ModelError")


def test_a_paused_turn_without_words_is_continued() -> None:
    runner = PureRunner(make_spec(), once(reply(stop="pause_turn"))).attempt().run()
    assert runner.state.tasks["main"].result == "done"


def test_a_tool_that_is_not_on_offer_is_an_error_result() -> None:
    runner = PureRunner(make_spec(), once(reply(call("made__up"), stop="tool_use"))).attempt().run()
    assert runner.calls == []
    assert "no tool named 'made__up'" in runner.transcript[2]["content"][0]["content"][0]["text"]


def test_a_call_when_the_agent_has_no_tools_is_an_error_result() -> None:
    spec = make_spec(agents=[{"name": "sre"}])
    runner = PureRunner(spec, once(reply(call(), stop="tool_use"))).attempt().run()
    assert runner.state.toolsets == {}
    assert runner.calls == []
    assert ended(runner)[0] == "Succeeded"


def test_a_schema_that_cannot_be_recorded_does_not_keep_the_run_from_starting() -> None:
    offers = [
        offer("look", {"type": "object", "default": float("nan")}),
        offer("fix", {"type": "object", "properties": {"deep": nested(600)}}),
        ToolOffer(tool="ops.a", wire="ops__a", input_schema={}, annotations={"x": float("inf")}),
    ]
    runner = (
        PureRunner(make_spec(), once(asks("look", "fix", turn=1)), offers=offers).attempt().run()
    )
    assert [made.tool for made in runner.calls] == ["look", "fix"]
    assert [tool.input_schema for tool in runner.state.toolsets["sre"]][:2] == [
        {"type": "object"}
    ] * 2
    assert boundaries.tools_offered(runner.state, "sre", offers) is None, "nothing new"


def test_forged_blob_names_in_arguments_and_results_stay_what_they_are() -> None:
    forged = {"$blob": "0" * 64, "n": {"$esc": {"$blob": "1" * 64}}}
    runner = PureRunner(make_spec(), once(reply(call(**forged), stop="tool_use")))
    runner.tool = lambda call: ToolAnswer([{"type": "text", "text": "x", "more": forged}], False, 1)
    runner.attempt().run()
    assert runner.calls[0].arguments == forged
    assert runner.transcript[2]["content"][0]["content"][0]["more"] == forged
    survives_a_snapshot(runner)


def test_the_last_of_duplicate_keys_is_called_and_the_text_is_kept() -> None:
    raw = '{"n": 1, "n": 2}'
    asked = Requested("toolu_1", "ops__look", parse_json(raw), raw)
    odd = Reply([call(n=2)], (asked,), "tool_use", "m", "msg", Usage())
    runner = PureRunner(make_spec(), once(odd)).attempt()
    while runner.state.totals.turns == 0:
        runner.do(runner.steps()[0])
    assert runner.state.conversations["main"].calls[0].raw == raw
    runner.run()
    assert runner.calls[0].arguments == {"n": 2}


def sent(runner: PureRunner) -> Json:
    """The messages of the next request."""
    return json.loads(build_request(runner.state, runner.spec, "main").body)["messages"]


def to_the_second_request(runner: PureRunner) -> PureRunner:
    runner.attempt()
    while runner.state.totals.turns == 0 or runner.state.conversations["main"].calls:
        runner.do(runner.steps()[0])
    return runner


def test_an_empty_text_beside_a_call_is_not_sent_back() -> None:
    odd = reply(said(""), said(" \n"), said("ok"), call(), stop="tool_use")
    runner = to_the_second_request(PureRunner(make_spec(), once(odd)))
    assert sent(runner)[1]["content"] == [said("ok"), call()]
    assert runner.transcript[1]["content"] == odd.content, "the record keeps it"


def test_a_tool_that_says_nothing_has_a_result_without_content() -> None:
    runner = PureRunner(make_spec(), once(reply(call(), stop="tool_use")))
    runner.tool = lambda call: ToolAnswer([said("")], False, 1)
    result = sent(to_the_second_request(runner))[2]["content"][0]
    assert "content" not in result
    assert result["tool_use_id"] == "toolu_1"


def test_no_request_holds_half_a_character() -> None:
    odd = reply(said(f"a{HALF}b 😀 \\ud800"), call(f"ops__{HALF}", f"toolu{HALF}"), stop="tool_use")
    runner = PureRunner(make_spec(), once(odd), offers=(offer("look", {"title": HALF}),))
    runner.tool = lambda call: says(HALF)
    to_the_second_request(runner)
    body = build_request(runner.state, runner.spec, "main").body.decode()
    json.dumps(json.loads(body), ensure_ascii=False).encode()
    assistant = sent(runner)[1]["content"]
    assert assistant[0]["text"] == "a\ufffdb 😀 \\ud800"
    assert (assistant[1]["id"], assistant[1]["name"]) == ("toolu_", "ops___")
    assert sent(runner)[2]["content"][0]["tool_use_id"] == "toolu_"


def test_a_pair_that_was_torn_apart_is_sent_as_it_is_after_a_restore() -> None:
    """The live state has two halves where the stored one has a character: same bytes on the wire."""
    torn = "\ud83d" + "\ude00"
    odd = reply(said(torn), call(f"ops__{torn}", torn), stop="tool_use")
    runner = to_the_second_request(PureRunner(make_spec(), once(odd)))
    stored = build_request(runner.state, runner.spec, "main").body
    runner.transcript[1] = {"role": "assistant", "content": odd.content}
    result = {**runner.transcript[2]["content"][0], "tool_use_id": torn}
    runner.transcript[2] = {"role": "user", "content": [result]}
    assert build_request(runner.state, runner.spec, "main").body == stored


def test_thinking_is_sent_back_as_it_came() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": "s", "extra": [1]}
    odd = reply(thinking, call(), stop="tool_use")
    runner = to_the_second_request(PureRunner(make_spec(), once(odd)))
    assert sent(runner)[1]["content"][0] == thinking


def test_an_answer_with_files_that_cannot_be_kept_still_leaves_its_files() -> None:
    runner = PureRunner(make_spec(), once(asks("look", turn=1)))
    change = FileChange(path="a", sha256="0" * 64, size=1)
    runner.tool = lambda call: ToolAnswer([{"x": float("nan")}], False, 1, (change,))
    runner.attempt().run()
    kinds = [type(r) for b in runner.boundaries for r in b.records]
    assert WorkspaceChanged in kinds
    assert runner.state.files["ops"] == {"a": ("0" * 64, 1, 0o644)}


def test_a_result_of_half_a_character_folds_as_it_is() -> None:
    runner = PureRunner(make_spec(), once(asks("look", turn=1))).attempt()
    while runner.state.totals.turns == 0:
        runner.do(runner.steps()[0])
    fold(runner.state, RUNNER, [ToolResult(call="main/1/1/0", content=[said(HALF)])])
    assert runner.state.conversations["main"].calls[0].result == [said(HALF)]
