"""What a streamed reply becomes: every block as it came, or nothing at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.runner.adapters.replies import Event, block, says, start, stop, text, tool

from agentrun.run.exact import DEPTH_MAX, exact_json, unfit
from agentrun.run.records import Usage
from agentrun.run.values import Reply
from agentrun.runner.model.faults import Kind, TryFailed
from agentrun.runner.model.reply import finish
from agentrun.runner.model.stream import Assembly


def assemble(events: list[Event]) -> Assembly:
    assembly = Assembly()
    for event in events:
        assembly.take(event["type"], json.dumps(event))
    return assembly


def reply(*events: Event, repair: bool = False) -> Reply:
    return finish(assemble(list(events)), repair=repair)


def refusal(*events: Event, repair: bool = False) -> TryFailed:
    with pytest.raises(TryFailed) as caught:
        reply(*events, repair=repair)
    return caught.value


def test_text_is_joined_and_the_envelope_kept() -> None:
    got = reply(*says("hel", "lo"))
    assert got.content == [{"type": "text", "text": "hello"}]
    assert (got.stop_reason, got.model, got.message_id) == ("end_turn", "m1", "msg_1")
    assert got.requested == ()


def test_thinking_keeps_its_signature_and_redacted_thinking_its_data() -> None:
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "let me "},
        {"type": "thinking_delta", "thinking": "see"},
        {"type": "signature_delta", "signature": "c2ln"},
    )
    redacted = block(1, {"type": "redacted_thinking", "data": "b3BhcXVl"})
    got = reply(start(), *thinking, *redacted, *text(2, "hi"), *stop())
    assert got.content == [
        {"type": "thinking", "thinking": "let me see", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "hi"},
    ]
    assert list(got.content[0]) == ["type", "thinking", "signature"]


def test_a_block_of_an_unknown_type_survives_with_everything_in_it() -> None:
    opening = {"type": "weather_map", "zone": "EU", "layers": [1], "n": 10**30}
    deltas: list[Event] = [
        {"type": "map_delta", "layers": [2, 3]},
        {"type": "map_delta", "note": "a"},
        {"type": "map_delta", "note": "b", "done": True},
    ]
    got = reply(start(), *block(0, opening, *deltas), *stop())
    assert got.content == [{**opening, "layers": [1, 2, 3], "note": "ab", "done": True}]


@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "cache_read_input_tokens"])
def test_a_count_of_tokens_that_cannot_be_is_a_broken_stream(field: str) -> None:
    assembly = Assembly()
    event = {"type": "message_start", "message": {"usage": {field: 10**16}}}
    with pytest.raises(TryFailed) as caught:
        assembly.take("message_start", json.dumps(event))
    assert caught.value.fault.kind is Kind.AGAIN
    assert "counts more tokens" in caught.value.fault.why


def test_citations_of_a_stream_are_gathered_in_their_block() -> None:
    cited = [{"type": "citations_delta", "citation": {"n": n}} for n in (1, 2)]
    got = reply(
        start(), *block(0, {"type": "text", "text": "", "citations": None}, *cited), *stop()
    )
    assert got.content[0]["citations"] == [{"n": 1}, {"n": 2}]


def test_unknown_events_are_passed_over() -> None:
    assert reply({"type": "telemetry", "x": 1}, *says(), {"type": "after"}).content


def test_tool_input_is_parsed_and_its_text_kept_where_it_differs() -> None:
    streamed = '{"a":  1, "b": 1e2, "a": 2, "n": 123456789012345678901}'
    parts = [streamed[:9], streamed[9:20], streamed[20:]]
    got = reply(start(), *tool(0, "", *parts), *stop("tool_use"))
    (call,) = got.requested
    assert call.arguments == {"a": 2, "b": 100.0, "n": 123456789012345678901}
    assert call.raw == streamed
    assert got.content[0]["input"] == call.arguments


def test_the_text_is_not_kept_where_it_is_the_compact_form() -> None:
    got = reply(start(), *tool(0, '{"a":1,', '"b":"\\u00e9"}'), *stop("tool_use"))
    assert got.requested[0].raw is None


@pytest.mark.parametrize("parts", [(), ("",), ("", "")])
def test_no_streamed_input_is_an_empty_object(parts: tuple[str, ...]) -> None:
    got = reply(start(), *tool(0, *parts), *stop("tool_use"))
    assert got.requested[0].arguments == {}
    assert got.requested[0].raw is None


def test_nul_and_deep_unicode_pass() -> None:
    got = reply(start(), *tool(0, '{"s":"a\\u0000b\\ud83d\\ude00"}'), *stop("tool_use"))
    assert got.requested[0].arguments == {"s": "a\x00b\U0001f600"}


def test_a_pair_torn_by_the_stream_is_no_lone_surrogate() -> None:
    got = reply(start(), *text(0, "a\ud83d", "\ude00b"), *stop())
    assert got.content[0]["text"] == "a\U0001f600b"


def test_server_tools_are_kept_but_not_requested() -> None:
    server = {"type": "server_tool_use", "id": "s1", "name": "web", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"q":1}'}
    got = reply(start(), *block(0, server, delta), *text(1, "x"), *stop())
    assert got.content[0]["input"] == {"q": 1}
    assert got.requested == ()


def test_usage_merges_and_null_is_nothing() -> None:
    events = [
        start(cache_read_input_tokens=99, cache_creation_input_tokens=7, service_tier="x"),
        *text(0, "a"),
        *stop(cache_read_input_tokens=None, input_tokens=None),
    ]
    assert reply(*events).usage == Usage(
        input_tokens=12, output_tokens=40, cache_read_tokens=99, cache_write_tokens=7
    )


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_call_cut_by_the_output_limit_is_dropped(reason: str) -> None:
    for parts in ((), ('{"path":"/tm',)):
        got = reply(start(), *text(0, "so"), *tool(1, *parts), *stop(reason))
        assert got.requested == ()
        assert [part["type"] for part in got.content] == ["text"]
        assert got.stop_reason == reason
    whole = reply(start(), *tool(0, '{"a":1}'), *stop(reason))
    assert len(whole.requested) == 1


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


UNUSABLE = {
    "too deep": (json.dumps({"a": nested(DEPTH_MAX)}), False),
    "one level too deep": (json.dumps({"a": nested(DEPTH_MAX - 2)}), False),
    "no object": ("[1]", False),
    "no JSON, on the last try": ('{"a":', True),
    "a tower, on the last try": ('{"a":' + "[" * 100_000, True),
    "not a number, on the last try": ('{"a":NaN}', True),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_input_that_cannot_be_used_is_a_call_with_no_arguments(name: str) -> None:
    """The run refuses such a call and the model is told. The text that it wrote is kept."""
    text, repair = UNUSABLE[name]
    got = reply(start(), *tool(0, text), *stop("tool_use"), repair=repair)
    (call,) = got.requested
    assert not isinstance(call.arguments, dict)
    assert text in (call.raw, exact_json(call.arguments).decode())
    assert got.content[0]["input"] == {}


def test_input_as_deep_as_can_be_kept_is_kept() -> None:
    deep = {"a": nested(DEPTH_MAX - 3)}
    got = reply(start(), *tool(0, json.dumps(deep)), *stop("tool_use"))
    assert got.requested[0].arguments == got.content[0]["input"] == deep
    assert unfit(got.content) is None


def test_a_tower_cut_by_the_output_limit_is_dropped() -> None:
    got = reply(start(), *text(0, "so"), *tool(1, "[" * 100_000), *stop("max_tokens"))
    assert got.requested == ()


BROKEN: dict[str, list[Event]] = {
    "no message_stop": says()[:-1],
    "no message_start": says()[1:],
    "no stop reason": [start(), *text(0, "a"), *stop(None)],
    "input is not JSON": [start(), *tool(0, '{"a":'), *stop("tool_use")],
    "input is NaN": [start(), *tool(0, '{"a":NaN}'), *stop("tool_use")],
    "input is infinite": [start(), *tool(0, '{"a":1e400}'), *stop("tool_use")],
    "input has a giant number": [start(), *tool(0, f'{{"a":{"1" * 5000}}}'), *stop("tool_use")],
    "input is a tower": [start(), *tool(0, '{"a":' + "[" * 100_000), *stop("tool_use")],
    "no id": [start(), *tool(0, "{}", id=""), *stop("tool_use")],
    "a block is a tower": [start(), *block(0, {"type": "map", "x": nested(700)}), *stop()],
    "surrogate in text": [start(), *text(0, "a\ud800b"), *stop()],
    "surrogate in input": [start(), *tool(0, '{"a":"\\ud800"}'), *stop("tool_use")],
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_whole_reply_is_a_broken_stream(name: str) -> None:
    assert refusal(*BROKEN[name]).fault.kind is Kind.AGAIN


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
        {"type": "content_block_start", "content_block": {"type": "text"}},
        {"type": "content_block_start", "index": 9},
        {"type": "message_start"},
    ],
)
def test_events_out_of_order_are_a_broken_stream(event: Event) -> None:
    with pytest.raises(TryFailed):
        assemble([start(), *text(0, "a"), event])


def test_an_event_that_is_no_object_is_a_broken_stream() -> None:
    with pytest.raises(TryFailed):
        Assembly().take("message_start", "[]")


def test_on_the_last_try_lone_surrogates_are_replaced_and_counted() -> None:
    events = [start(), *text(0, "a\ud800"), *tool(1, '{"\\udc00":"\\ud800x"}'), *stop("tool_use")]
    got = reply(*events, repair=True)
    assert got.sanitized == 3
    assert got.content[0]["text"] == "a\ufffd"
    assert got.requested[0].arguments == {"\ufffd": "\ufffdx"}
    assert got.requested[0].raw == '{"\\udc00":"\\ud800x"}'


def test_thinking_is_signed_and_therefore_never_repaired() -> None:
    signed: list[Any] = [
        {"type": "thinking_delta", "thinking": "\ud800"},
        {"type": "signature_delta", "signature": "c2ln"},
    ]
    events = block(0, {"type": "thinking", "thinking": "", "signature": ""}, *signed)
    assert refusal(start(), *events, *stop(), repair=True).fault.kind is Kind.AGAIN


def test_two_calls_with_one_id_are_refused() -> None:
    """H5, inside one message: the answers could not be told apart."""
    twice = [start(), *tool(0, "{}", id="t"), *tool(1, "{}", id="t"), *stop("tool_use")]
    assert refusal(*twice).fault.kind is Kind.REPLY


def test_a_reply_that_answers_a_call_is_refused_before_it_poisons_the_record() -> None:
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "forged"}
    failed = refusal(start(), *block(0, answer), *stop())
    assert failed.fault.kind is Kind.REPLY


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_delta", "index": [0], "delta": {}},
        {"type": "content_block_delta", "index": {"a": 0}, "delta": {}},
        {"type": "content_block_delta", "index": 0, "delta": {"citation": 1}},
    ],
)
def test_a_value_of_a_wrong_type_is_a_broken_stream(event: Event) -> None:
    opening = block(0, {"type": "text", "text": "", "citations": 5})[0]
    failed = refusal(start(), opening, event)
    assert failed.fault.kind is Kind.AGAIN


def test_an_id_of_an_earlier_reply_is_nothing_special() -> None:
    """H5: identity is by position, so the same id in two replies is fine."""
    first = reply(start(), *tool(0, "{}", id="t"), *stop("tool_use"))
    second = reply(start(), *tool(0, "{}", id="t"), *stop("tool_use"))
    assert first.requested == second.requested


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", Kind.AGAIN),
        ("api_error", Kind.AGAIN),
        ("rate_limit_error", Kind.AGAIN),
        ("something_new", Kind.AGAIN),
        ("invalid_request_error", Kind.REFUSED),
        ("authentication_error", Kind.ACCOUNT),
        ("billing_error", Kind.ACCOUNT),
    ],
)
def test_an_error_in_the_stream_is_what_its_type_says(kind: str, expected: Kind) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "m"}}
    with pytest.raises(TryFailed) as caught:
        assemble([start(), error])
    assert caught.value.fault.kind is expected
    assert caught.value.usage == Usage(input_tokens=12, output_tokens=1)
