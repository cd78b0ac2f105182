"""What is an answer, what is silence, and what is provably nothing: every row of the table.

A server that answers raw bytes, and the SDK's client in between. Only a JSON-RPC answer of the server
is an answer; whatever the SDK makes up is not.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from tests.runner.adapters.rawhttp import (
    Answer,
    Seen,
    dropped,
    raw_server,
    reset,
    silent,
    sse,
    whole,
)
from tests.runner.adapters.toolcalls import (
    KEY,
    LEGACY,
    MODERN,
    always,
    as_json,
    calls_of,
    declined,
    mcp_server,
    outgoing,
    remote,
    result,
    rpc,
    tool_servers,
    until,
)

from agentrun.errors import NotSent, ToolServerUnavailable
from agentrun.run.values import ToolAnswer, ToolSilence
from agentrun.runner.tools import Kind, Target

ERAS = [MODERN, LEGACY]
HELLO = {"content": [{"type": "text", "text": "hello"}], "resultType": "complete"}


async def outcome(*answers: Answer, era: str = MODERN, timeout_ms: int = 20_000) -> Any:
    """What a call to a server with these answers comes to: an outcome, or the error."""
    async with mcp_server(*answers, era=era) as server, tool_servers(remote(server.url)) as opened:
        try:
            return await opened.call(outgoing(timeout_ms=timeout_ms), may_send=always)
        except ToolServerUnavailable as error:
            return error


def events(body: Any, *, event_id: str = "") -> Answer:
    """The answer as a server-sent event; ``body`` may be a function of the request."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        value = body(seen) if callable(body) else body
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        frame = b"event: message\n" + (f"id: {event_id}\n".encode() if event_id else b"")
        await sse(frame + b"data: " + text + b"\n\n")(seen, writer)

    return answer


def hello(seen: Seen) -> dict[str, Any]:
    return rpc(seen, result=HELLO)


def cut(body: bytes, *, length: int) -> Answer:
    """A JSON answer that promises more than it sends, then closes."""

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}"
        writer.write(head.encode() + b"\r\n\r\n" + body)
        await writer.drain()
        reset(writer)

    return answer


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("answer", [result(HELLO), events(hello)], ids=["json", "sse"])
async def test_a_result_is_an_answer(era: str, answer: Answer) -> None:
    got = await outcome(answer, era=era)
    assert isinstance(got, ToolAnswer), got
    assert got.content == [{"type": "text", "text": "hello"}]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("code", "status"),
    [(-32602, 200), (-32602, 400), (-32601, 404), (-32603, 500), (-32000, 200), (0, 200), (7, 503)],
)
async def test_a_json_rpc_error_of_the_server_is_an_answer(
    era: str, code: int, status: int
) -> None:
    got = await outcome(declined(code, "no such thing", status, data={"hint": 1}), era=era)
    assert isinstance(got, ToolAnswer), got
    assert got.is_error
    assert f"error {code}: no such thing" in got.content[0]["text"]
    assert '{"hint":1}' in got.content[0]["text"]


SILENCE: dict[str, Answer] = {
    "reset without an answer": dropped,
    "400 with text": whole(400, "bad"),
    "500 with text": whole(500, "oops"),
    "502": whole(502, "bad gateway"),
    "503 without Retry-After": whole(503, "upstream reset"),
    "504": whole(504, ""),
    "500 with other JSON": as_json({"error": "x"}, status=500),
    "200 with HTML": whole(200, "<html>", content_type="text/html"),
    "202": whole(202),
    "302 after a processed POST": whole(302, "", location="/done"),
    "303 after a processed POST": whole(303, "", location="/done"),
    "invalid JSON": as_json(b'{"jsonrpc": "2.0", "id": 1, "res'),
    "bad UTF-8": as_json(b'{"jsonrpc":"2.0","id":3,"result":{"content":[],"x":"\xff"}}'),
    "JSON that is no message": as_json([1, 2]),
    "JSON cut in the middle": cut(b'{"jsonrpc":"2.0","id":', length=5000),
    "a stream that ends": sse(b": hello\n\n"),
    "a stream that is reset": sse(b": hello\n\n", end="reset"),
    "a stream with broken JSON": events(b'{"jsonrpc": "2.'),
    "a stream with bad UTF-8": events(b'{"jsonrpc":"2.0","id":3,"result":{"x":"\xff"}}'),
    "a gateway that passes on its own ignorance": declined(-32000, "Connection closed"),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", SILENCE)
async def test_h3_everything_else_that_was_sent_is_silence(era: str, name: str) -> None:
    got = await outcome(SILENCE[name], era=era)
    assert isinstance(got, ToolSilence), got
    assert got.why


@pytest.mark.parametrize("era", ERAS)
async def test_h3_no_answer_in_time_is_silence(era: str) -> None:
    got = await outcome(silent, era=era, timeout_ms=200)
    assert isinstance(got, ToolSilence)
    assert "no answer within 0.2 s" in got.why


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (whole(401, "who are you"), "HTTP 401"),
        (whole(403, "no"), "HTTP 403"),
        (whole(404, "nothing here"), "HTTP 404"),
        (whole(405, ""), "HTTP 405"),
        (whole(429, "slow down"), "HTTP 429"),
        (whole(503, "restarting", retry_after="5"), "HTTP 503"),
        (whole(308, "", location="http://127.0.0.1:1/elsewhere"), "HTTP 308"),
    ],
)
async def test_a_request_turned_away_was_not_executed(answer: Answer, why: str) -> None:
    got = await outcome(answer)
    assert isinstance(got, ToolServerUnavailable), got
    assert not isinstance(got, NotSent)
    assert why in str(got)


async def test_a_request_that_is_too_large_is_told_to_the_model() -> None:
    got = await outcome(whole(413, "too large"))
    assert isinstance(got, ToolAnswer)
    assert got.is_error
    assert "larger than the server accepts" in got.content[0]["text"]


async def test_throttling_is_waited_out_as_asked() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    answers = [whole(429, "", retry_after="3"), whole(503, "", retry_after="2"), result(HELLO)]
    async with (
        mcp_server(*answers) as server,
        tool_servers(remote(server.url), patience=60, sleep=sleep) as opened,
    ):
        got = await opened.call(outgoing(), may_send=always)
    assert isinstance(got, ToolAnswer)
    assert waits == [3, 2]
    assert len({seen.headers["idempotency-key"] for seen in calls_of(server)}) == 1


async def test_a_redirect_within_the_server_is_followed() -> None:
    async def moved(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await whole(307, "", location="/mcp/")(seen, writer)

    got = await outcome(moved, result(HELLO))
    assert isinstance(got, ToolAnswer)


async def test_one_broken_call_does_not_end_the_others() -> None:
    """Without the guard a reset in one call ends the SDK's client for all."""
    held = asyncio.Event()

    async def late(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        await result(HELLO)(seen, writer)

    async with (
        mcp_server(late, dropped, result(HELLO)) as server,
        tool_servers(remote(server.url)) as opened,
    ):
        first = asyncio.ensure_future(opened.call(outgoing(), may_send=always))
        await until(lambda: calls_of(server))
        assert isinstance(await opened.call(outgoing(), may_send=always), ToolSilence)
        held.set()
        assert isinstance(await first, ToolAnswer)
        assert isinstance(await opened.call(outgoing(), may_send=always), ToolAnswer)


async def test_a_server_that_forgot_its_session_gets_the_call_once_more() -> None:
    for forgot in (whole(404, "gone"), declined(-32600, "Session not found", 404)):
        async with (
            mcp_server(forgot, result(HELLO), era=LEGACY, mcp_session_id="s-1") as server,
            tool_servers(remote(server.url), patience=10) as opened,
        ):
            got = await opened.call(outgoing(), may_send=always)
            assert isinstance(got, ToolAnswer), got
        greetings = [s for s in server.seen if s.method == "POST" and b'"initialize"' in s.body]
        assert len(greetings) == 2


async def test_a_session_names_the_servers_state() -> None:
    async with (
        mcp_server(result(HELLO), era=LEGACY, mcp_session_id="secret-1") as server,
        tool_servers(remote(server.url)) as opened,
    ):
        assert await opened.generation("ops") is None
        await opened.call(outgoing(), may_send=always)
        name = await opened.generation("ops")
    assert name is not None
    assert "secret" not in name


UNKNOWN: list[tuple[Any, Any]] = [
    (
        {"content": [{"type": "hologram", "x": 1}]},
        [{"type": "text", "text": '{"type":"hologram","x":1}'}],
    ),
    ({"content": "just text"}, [{"type": "text", "text": '"just text"'}]),
    ({"content": [5]}, [{"type": "text", "text": "5"}]),
    ({}, []),
    ({"content": None}, []),
    ({"content": [{"type": "image", "data": "AAAA"}]}, None),
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("sent", "expected"), UNKNOWN)
async def test_content_the_sdk_does_not_know_is_still_an_answer(
    era: str, sent: Any, expected: Any
) -> None:
    """The tool has run: refusing its answer would lose the outcome."""
    got = await outcome(result({**sent, "resultType": "complete"}), era=era)
    assert isinstance(got, ToolAnswer), got
    assert expected is None or got.content == expected


async def test_no_output_schema_is_checked_here() -> None:
    tools = [
        {
            "name": "echo",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "required": ["x"]},
        }
    ]
    broken = {**HELLO, "structuredContent": {"y": 1}}
    async with (
        mcp_server(result(broken), tools=tools) as server,
        tool_servers(remote(server.url)) as opened,
    ):
        await opened.offered(["ops"])
        got = await opened.call(outgoing(), may_send=always)
    assert isinstance(got, ToolAnswer)


async def test_a_call_that_wants_input_is_an_error_result() -> None:
    got = await outcome(result({"resultType": "input_required", "inputRequests": {}}))
    assert isinstance(got, ToolAnswer)
    assert got.is_error


@pytest.mark.parametrize("size", [3 << 20, 20 << 20])
async def test_a_large_event(size: int) -> None:
    """The SDK's limit of 1 MiB is raised to 32."""

    def large(seen: Seen) -> dict[str, Any]:
        return rpc(seen, result={**HELLO, "content": [{"type": "text", "text": "x" * size}]})

    got = await outcome(events(large))
    assert isinstance(got, ToolAnswer)
    assert len(got.content[0]["text"]) == size


@pytest.mark.parametrize("how", ["json", "sse"])
async def test_surrogates_are_mended_before_anything_parses_them(how: str) -> None:
    def odd(seen: Seen) -> bytes:
        request = seen.json()["id"]
        text = r"\ud800 \\ud800 \ud83d\ude00 \uDC00\u0000"
        block = f'{{"type":"text","text":"{text}"}}'
        return (
            f'{{"jsonrpc":"2.0","id":{request},'
            f'"result":{{"content":[{block}],"resultType":"complete"}}}}'
        ).encode()

    async def plain(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await as_json(odd(seen))(seen, writer)

    got = await outcome(events(odd) if how == "sse" else plain)
    assert isinstance(got, ToolAnswer), got
    assert got.content[0]["text"] == "\ufffd \\ud800 \U0001f600 \ufffd\x00"
    assert got.sanitized == 2


async def test_the_permission_is_asked_when_the_bytes_leave() -> None:
    """A pod that was frozen between deciding and sending must not send."""
    asked: list[int] = []

    def lapsed() -> bool:
        asked.append(1)
        return False

    async with mcp_server(result(HELLO)) as server, tool_servers(remote(server.url)) as opened:
        await opened.offered(["ops"])
        with pytest.raises(NotSent):
            await opened.call(outgoing(), may_send=lapsed)
        assert calls_of(server) == []
        assert len(asked) == 1
        assert isinstance(await opened.call(outgoing(), may_send=always), ToolAnswer)


async def test_without_a_connection_nobody_is_asked_for_permission() -> None:
    async with raw_server(dropped) as server:
        url = server.url

    def never() -> bool:
        raise AssertionError("nothing was about to leave")

    async with tool_servers(remote(url)) as opened:
        with pytest.raises(ToolServerUnavailable, match="connection refused"):
            await opened.call(outgoing(), may_send=never)


SECRET = "hunter2-very-secret"


async def test_secret_headers_are_sent_and_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    headers = (("Authorization", f"Bearer {SECRET}"), ("X-Team", SECRET))
    async with mcp_server(whole(401, SECRET)) as server:
        there = Target("ops", Kind.REMOTE, f"{server.url}/mcp?token={SECRET}", headers)
        async with tool_servers(there) as opened:
            with pytest.raises(ToolServerUnavailable) as caught:
                await opened.call(outgoing(), may_send=always)
            told = f"{caught.value!s} {caught.value!r} {caught.value.__cause__} {there!r}"
    (seen,) = calls_of(server)
    assert seen.headers["authorization"] == f"Bearer {SECRET}"
    assert seen.headers["x-team"] == SECRET
    assert SECRET not in told
    assert SECRET not in caplog.text


async def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(whole(500)) as proxy, mcp_server(result(HELLO)) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with tool_servers(remote(server.url)) as opened:
            assert isinstance(await opened.call(outgoing(), may_send=always), ToolAnswer)
    assert proxy.seen == []


async def test_no_spans_and_no_traceparent() -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider().get_tracer("t")
    with tracer.start_as_current_span("outer"):
        assert trace.get_current_span().get_span_context().is_valid
        async with mcp_server(result(HELLO)) as server, tool_servers(remote(server.url)) as opened:
            await opened.call(outgoing(), may_send=always)
    (seen,) = calls_of(server)
    assert "traceparent" not in seen.headers
    assert "traceparent" not in seen.json()["params"]["_meta"]


async def test_internal_and_repeated_tools_are_not_offered() -> None:
    schema = {"type": "object"}
    names = ["agentrun_state", "echo", "echo", "other"]
    tools = [
        {"name": name, "inputSchema": schema, "description": f"{n}"} for n, name in enumerate(names)
    ]
    async with mcp_server(tools=tools) as server, tool_servers(remote(server.url)) as opened:
        offered = await opened.offered(["ops"])
    assert [(tool.name, tool.description) for tool in offered] == [("echo", "1"), ("other", "3")]


async def test_a_server_without_tools_offers_none() -> None:
    async def greet(seen: Seen, writer: asyncio.StreamWriter) -> None:
        caching = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        found = {"supportedVersions": [MODERN], "capabilities": {}, **caching}
        if seen.json()["method"] == "server/discover":
            await as_json(rpc(seen, result=found))(seen, writer)
        else:
            await declined(-32601, "Method not found", 404)(seen, writer)

    async with raw_server(greet) as server, tool_servers(remote(server.url)) as opened:
        assert await opened.offered(["ops"]) == ()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (whole(401, ""), "HTTP 401"),
        (whole(500, "oops"), "HTTP 500"),
        (whole(200, "<html>", content_type="text/html"), "Unexpected content type"),
        (dropped, "the connection broke"),
    ],
)
async def test_why_a_handshake_failed(answer: Answer, why: str) -> None:
    async with raw_server(answer) as server, tool_servers(remote(server.url)) as opened:
        with pytest.raises(ToolServerUnavailable, match=why):
            await opened.offered(["ops"])


async def test_the_key_goes_with_calls_only() -> None:
    async with mcp_server(result(HELLO)) as server, tool_servers(remote(server.url)) as opened:
        await opened.call(outgoing(), may_send=always)
    keyed = [seen for seen in server.seen if "idempotency-key" in seen.headers]
    assert [seen.headers["idempotency-key"] for seen in keyed] == [KEY]
    assert keyed == calls_of(server)


async def test_an_answer_after_the_timeout_is_nobodys() -> None:
    release = asyncio.Event()

    async def late(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await result(HELLO)(seen, writer)

    async with (
        mcp_server(late, result(HELLO), era=LEGACY) as server,
        tool_servers(remote(server.url)) as opened,
    ):
        first = await opened.call(outgoing(timeout_ms=150), may_send=always)
        assert isinstance(first, ToolSilence)
        release.set()
        assert isinstance(await opened.call(outgoing(), may_send=always), ToolAnswer)


async def test_a_list_of_tools_that_cannot_be_read_is_not_an_empty_one() -> None:
    tools = [{"name": "echo"}]
    async with mcp_server(tools=tools) as server, tool_servers(remote(server.url)) as opened:
        with pytest.raises(ToolServerUnavailable, match="unusable"):
            await opened.offered(["ops"])


async def test_a_resumed_stream_needs_no_new_permission() -> None:
    """The call left with permission; that its answer is fetched again later is no new call."""
    allowed = [True]

    async def broken(seen: Seen, writer: asyncio.StreamWriter) -> None:
        allowed[:] = [False]
        await sse(b"id: 1\nretry: 1\ndata:\n\n", end="reset")(seen, writer)

    async with mcp_server(broken, era=LEGACY) as server, tool_servers(remote(server.url)) as opened:
        await opened.offered(["ops"])
        got = await opened.call(outgoing(), may_send=lambda: allowed[0])
        resumed = [seen for seen in server.seen if "last-event-id" in seen.headers]
    assert resumed
    assert isinstance(got, ToolSilence)


def test_proxies_are_for_the_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentrun.runner.tools.guard import _proxy

    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    assert _proxy(remote("https://tools.example")) == "http://proxy.example:3128"
    assert _proxy(remote("https://inside.example")) is None
    assert _proxy(remote("https://127.0.0.1:1")) is None
    assert _proxy(Target("a", Kind.SIDECAR, "https://tools.example/mcp")) is None
