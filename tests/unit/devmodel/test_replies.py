"""What a reply looks like on the wire, streamed and whole."""

from __future__ import annotations

import json
import time

import anthropic
import httpx2
import pytest

from .conftest import Connect, Start
from .requests import ask, stream

RICH = {
    "reply": {
        "thinking": "Let me think about it.",
        "text": "Looking at it now.",
        "tools": [
            {"id": "toolu_01", "name": "ops__restart", "input": {"service": "checkout"}},
            {"name": "ops__look", "input": {"deep": True}},
        ],
    },
    "usage": {"input": 120, "output": 40, "cacheRead": 7, "cacheWrite": 3},
}


async def test_a_stream_has_every_event_and_several_deltas(start: Start, connect: Connect) -> None:
    got = await stream(connect(start(RICH)))
    kinds = got.kinds()
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert [block["type"] for block in got.blocks()] == ["thinking", "text", "tool_use", "tool_use"]
    assert got.joined(0, "thinking") == "Let me think about it."
    assert len(got.joined(0, "signature")) > 40
    assert got.joined(1, "text") == "Looking at it now."
    assert json.loads(got.joined(2, "partial_json")) == {"service": "checkout"}
    assert len(got.deltas(0, "thinking")) > 2
    assert len(got.deltas(1, "text")) > 2
    assert len(got.deltas(2, "partial_json")) > 2
    assert got.events[-2]["delta"]["stop_reason"] == "tool_use"


async def test_usage_arrives_as_the_provider_sends_it(start: Start, connect: Connect) -> None:
    got = await stream(connect(start(RICH)))
    first, last = got.events[0]["message"]["usage"], got.events[-2]["usage"]
    assert first["input_tokens"] == last["input_tokens"] == 120
    assert first["cache_read_input_tokens"] == last["cache_read_input_tokens"] == 7
    assert first["cache_creation_input_tokens"] == 3
    assert first["output_tokens"] == 1
    assert last["output_tokens"] == 40


async def test_the_whole_message_equals_the_streamed_one(start: Start, connect: Connect) -> None:
    client = connect(start(RICH))
    whole, streamed = await ask(client), await stream(client)
    assert whole["content"][0]["thinking"] == streamed.joined(0, "thinking")
    assert whole["content"][0]["signature"] == streamed.joined(0, "signature")
    assert whole["content"][2]["input"] == json.loads(streamed.joined(2, "partial_json"))
    assert whole["stop_reason"] == "tool_use"
    assert whole["usage"] == streamed.events[-2]["usage"]


async def test_the_client_library_reads_a_message(start: Start, connect: Connect) -> None:
    message = await connect(start(RICH)).messages.create(
        model="m1", max_tokens=100, messages=[{"role": "user", "content": "x"}]
    )
    assert message.content[2].type == "tool_use"
    assert message.model == "m1"


async def test_ids_depend_only_on_the_request(start: Start, connect: Connect) -> None:
    """A restarted server gives the same ids; another request gets others."""
    one, two = connect(start(RICH)), connect(start(RICH))
    first, again = await stream(one), await stream(two)
    assert first.events == again.events
    other = await stream(two, [{"role": "user", "content": "other"}])
    assert other.events[0]["message"]["id"] != first.events[0]["message"]["id"]
    assert other.blocks()[3]["id"] != first.blocks()[3]["id"]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1,  "a": 2, "n": 1e2}',
        '{"s": "\\ud800", "big": 123456789012345678901234567890}',
        '{"open": ',
        "",
    ],
)
async def test_argument_text_is_streamed_byte_for_byte(
    start: Start, connect: Connect, text: str
) -> None:
    reply = {"tools": [{"id": "t", "name": "a", "inputText": text}]}
    got = await stream(connect(start({"reply": reply})))
    assert got.joined(0, "partial_json") == text


async def test_argument_text_is_kept_in_a_whole_message(start: Start, connect: Connect) -> None:
    reply = {"tools": [{"id": "t", "name": "a", "inputText": '{"a": 1, "a":  2}'}]}
    client = connect(start({"reply": reply}))
    raw = await client.messages.with_raw_response.create(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]
    )
    assert b'"input":{"a": 1, "a":  2}' in raw.http_response.content


async def test_raw_blocks_travel_unchanged(start: Start, connect: Connect) -> None:
    redacted = {"type": "redacted_thinking", "data": "abc"}
    novel = {"type": "hologram", "shape": {"z": 1}}
    got = await stream(connect(start({"reply": {"blocks": [redacted, novel], "text": "t"}})))
    assert got.blocks()[:2] == [redacted, novel]
    assert got.joined(2, "text") == "t"


async def test_stop_can_be_chosen_and_an_empty_reply_is_possible(
    start: Start, connect: Connect
) -> None:
    limited = {
        "match": {"turn": 0, "contains": "long"},
        "reply": {"text": "x", "stop": "max_tokens"},
    }
    client = connect(start(limited, {"reply": {}}))
    assert (await ask(client, [{"role": "user", "content": "long"}]))["stop_reason"] == "max_tokens"
    empty = await ask(client)
    assert empty["content"] == []
    assert empty["stop_reason"] == "end_turn"


async def test_a_lone_surrogate_in_a_text_arrives(start: Start, connect: Connect) -> None:
    got = await stream(connect(start({"reply": {"text": "a\ud800b\x00c"}})))
    assert got.joined(0, "text") == "a\ud800b\x00c"


async def test_eight_megabytes_of_text_arrive(start: Start, connect: Connect) -> None:
    got = await stream(connect(start({"reply": {"text": "x" * (8 << 20)}})))
    assert len(got.joined(0, "text")) == 8 << 20


async def test_a_cut_stream_ends_cleanly_without_message_stop(
    start: Start, connect: Connect
) -> None:
    got = await stream(connect(start({"reply": {"text": "half a reply", "cut": True}})))
    assert "content_block_delta" in got.kinds()
    assert "message_stop" not in got.kinds()


async def test_a_reset_stream_breaks(start: Start, connect: Connect) -> None:
    with pytest.raises((httpx2.HTTPError, anthropic.APIError)):
        await stream(connect(start({"reply": {"text": "half a reply", "cut": "reset"}})))


async def test_a_stall_is_silent_and_trips_a_read_timeout(start: Start, connect: Connect) -> None:
    client = connect(start({"reply": {"text": "slow", "stall": 60}})).with_options(timeout=0.3)
    with pytest.raises(httpx2.ReadTimeout):
        await stream(client)


async def test_a_stall_with_pings_outlasts_a_read_timeout(start: Start, connect: Connect) -> None:
    """Pings keep a connection alive, so only a deadline of the caller's own can end this."""
    reply = {"text": "slow", "stall": 0.9, "ping": 0.05}
    client = connect(start({"reply": reply})).with_options(timeout=0.4)
    got = await stream(client)
    assert got.kinds().count("ping") > 10
    assert got.joined(0, "text") == "slow"


async def test_delay_comes_before_the_first_byte(start: Start, connect: Connect) -> None:
    client = connect(start({"reply": {"text": "x"}, "delay": 0.3}))
    began = time.monotonic()
    await client.messages.create(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True
    )
    assert time.monotonic() - began >= 0.3
