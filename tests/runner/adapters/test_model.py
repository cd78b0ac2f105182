"""The model over the real SDK, against a server that answers with whatever bytes it is told to."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.runner.adapters.rawhttp import (
    Answer,
    RawServer,
    dropped,
    error,
    framed,
    raw_server,
    silent,
    sse,
    whole,
)
from tests.runner.adapters.replies import (
    KEY,
    Rig,
    exactly,
    request,
    rig,
    says,
    start,
    stop,
    text,
    tool,
)
from tests.runner.adapters.toolcalls import until

from agentrun.api import Bedrock, ModelSpec, Provider
from agentrun.errors import InvalidSpec, ModelRefused, ModelUnavailable
from agentrun.run.records import Usage
from agentrun.runner.model import Deadlines, open_model


async def outcome(*answers: Answer, **options: Any) -> tuple[Any, Rig, RawServer]:
    """What one request to a server with these answers comes to: a reply, or the error."""
    async with raw_server(*answers) as server:
        made = rig(server.url, **options)
        try:
            return await made.model.complete(request()), made, server
        except (ModelUnavailable, ModelRefused) as failed:
            return failed, made, server
        finally:
            await made.model.close()


async def test_exactly_the_given_bytes_are_sent() -> None:
    body = b'{"model":"m1", "z":1,"a":"\\ud83d\\ude00\\u0000",\n"max_tokens":5,"stream":true}'
    async with raw_server(sse(*says())) as server:
        made = rig(server.url)
        await made.model.complete(exactly(body))
        await made.model.close()
    (seen,) = server.seen
    assert seen.body == body
    assert (seen.method, seen.path) == ("POST", "/v1/messages")
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["x-api-key"] == KEY
    assert "anthropic-version" in seen.headers


async def test_a_reply_arrives_whole() -> None:
    got, made, _ = await outcome(sse(*says("hel", "lo")))
    assert got.content == [{"type": "text", "text": "hello"}]
    assert got.usage == Usage(input_tokens=12, output_tokens=40)
    assert made.noted() == ["replied"]


async def test_connections_are_used_again() -> None:
    async with raw_server(sse(*says())) as server:
        made = rig(server.url)
        for _ in range(3):
            await made.model.complete(request())
        await made.model.close()
    assert (len(server.seen), server.connections) == (3, 1)


AGAIN: dict[str, Answer] = {
    **{
        f"HTTP {code}": error(code, "api_error")
        for code in (408, 409, 429, 500, 502, 503, 504, 529)
    },
    "reset before the answer": dropped,
    "HTML": whole(200, "<html>hi</html>", content_type="text/html"),
    "a redirect to nowhere": whole(502, "bad gateway"),
    "a clean end in the middle": sse(*says()[:-1]),
    "a reset in the middle": sse(*says()[:-1], end="reset"),
    "an error event": sse(start(), {"type": "error", "error": {"type": "overloaded_error"}}),
    "broken JSON": sse(start(), b'event: x\ndata: {"type": "con\n\n', *text(0, "a"), *stop()),
    "bad UTF-8": sse(
        start(), b'event: x\ndata: {"type":"x","y":"\xff"}\n\n', *text(0, "a"), *stop()
    ),
    "a lone surrogate": sse(start(), *text(0, "a\ud800"), *stop()),
    "input that is not JSON": sse(start(), *tool(0, '{"a"'), *stop("tool_use")),
    "one id for two calls": sse(start(), *tool(0, "{}"), *tool(1, "{}"), *stop("tool_use")),
}


MENDED = ("a lone surrogate", "input that is not JSON")
"""A reply after all, if there is no better one."""


@pytest.mark.parametrize("name", AGAIN)
async def test_tried_again_until_it_works(name: str) -> None:
    got, made, server = await outcome(AGAIN[name], AGAIN[name], sse(*says()))
    assert got.content == [{"type": "text", "text": "hello"}]
    assert made.noted() == ["retry", "retry", "replied"]
    assert len(server.seen) == 3
    assert len({seen.body for seen in server.seen}) == 1


@pytest.mark.parametrize("name", [name for name in AGAIN if name not in MENDED])
async def test_given_up_when_the_tries_are_used_up(name: str) -> None:
    got, made, server = await outcome(AGAIN[name], retries=1)
    assert made.noted() == ["retry", "failed"]
    assert len(server.seen) == 2
    if name == "one id for two calls":
        assert isinstance(got, ModelRefused)
        return
    assert isinstance(got, ModelUnavailable)
    assert not got.auth
    assert not got.credit
    assert "(2 tries)" in str(got)
    assert got.retryable
    if name.startswith("HTTP"):
        assert name in str(got)


async def test_surrogates_on_the_last_try_are_replaced() -> None:
    got, made, _ = await outcome(AGAIN["a lone surrogate"], retries=1)
    assert got.content == [{"type": "text", "text": "a\ufffd"}]
    assert got.sanitized == made.notes[-1].sanitized == 1


async def test_input_that_is_never_json_is_left_to_the_model() -> None:
    got, made, _ = await outcome(AGAIN["input that is not JSON"], retries=1)
    assert made.noted() == ["retry", "replied"]
    assert got.requested[0].raw == '{"a"'


@pytest.mark.parametrize("code", [400, 404, 413, 422, 405, 418])
async def test_a_refused_request_is_refused_at_once(code: int) -> None:
    got, made, server = await outcome(error(code, "invalid_request_error", "tools.0: no"))
    assert isinstance(got, ModelRefused)
    assert f"HTTP {code}" in str(got)
    assert "tools.0: no" in str(got)
    assert len(server.seen) == 1
    assert made.waits == []


@pytest.mark.parametrize(
    ("answer", "status", "credit"),
    [
        (error(401, "authentication_error"), 401, False),
        (error(403, "permission_error"), 403, False),
        (error(402, "billing_error"), 402, True),
        (error(429, "rate_limit_error", code="enforced_spend_limit_reached"), 429, True),
        (error(400, "invalid_request_error", "Your credit balance is too low to"), 400, True),
        (sse(start(), {"type": "error", "error": {"type": "authentication_error"}}), 401, False),
    ],
)
async def test_key_and_credit_need_somebody(answer: Answer, status: int, credit: bool) -> None:
    """H34: the loop suspends on these, it must be able to tell them apart."""
    got, made, server = await outcome(answer)
    assert isinstance(got, ModelUnavailable)
    assert (got.auth, got.credit) == (True, credit)
    assert len(server.seen) == 1
    assert made.noted() == ["failed"]


async def test_retry_after_is_honoured() -> None:
    asked = error(429, "rate_limit_error", retry_after="7")
    dated = error(
        503, retry_after="Mon, 30 Nov 2026 10:00:20 GMT", date="Mon, 30 Nov 2026 10:00:00 GMT"
    )
    exact = error(529, retry_after_ms="1500", retry_after="9")
    _, made, _ = await outcome(asked, dated, exact, sse(*says()), retries=3)
    assert [int(wait * 10) for wait in made.waits] == [73, 205, 15]


async def test_without_a_wish_the_wait_doubles() -> None:
    _, made, _ = await outcome(error(529), retries=4)
    assert made.waits == [0.75, 1.5, 3.0, 6.0]


async def test_more_patience_than_an_attempt_has_is_not_slept_through() -> None:
    got, made, _ = await outcome(error(429, "rate_limit_error", retry_after="3600"))
    assert isinstance(got, ModelUnavailable)
    assert got.retry_after == 3600
    assert made.waits == []


async def test_refused_connections_are_tried_again_and_name_the_place() -> None:
    async with raw_server(dropped) as server:
        url = server.url
    made = rig(url, retries=1)
    with pytest.raises(ModelUnavailable, match=r"no answer from 127\.0\.0\.1"):
        await made.model.complete(request())
    await made.model.close()
    assert made.noted() == ["retry", "failed"]


SHORT = Deadlines(connect=5, quiet=0.15, total=30)


@pytest.mark.parametrize(
    "answer",
    [silent, sse(start(), end="stall"), sse(start(), end="pings")],
    ids=["no answer", "silence", "pings for ever"],
)
async def test_a_quiet_stream_is_given_up(answer: Answer) -> None:
    got, made, _ = await outcome(answer, sse(*says()), deadlines=SHORT)
    assert got.content
    assert "too slow" in made.notes[0].why or "no answer" in made.notes[0].why


async def test_a_trickle_is_bounded_by_the_total() -> None:
    async def trickle(seen: Any, writer: asyncio.StreamWriter) -> None:
        await sse(*says()[:2], end="")(seen, writer)
        while True:
            piece = framed(text(0, "x")[1])
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0.02)

    limits = Deadlines(connect=5, quiet=10, total=0.3)
    got, made, _ = await outcome(trickle, sse(*says()), deadlines=limits)
    assert got.content
    assert "in all" in made.notes[-2].why


async def test_a_body_that_does_not_end_after_the_reply_does_not_matter() -> None:
    got, made, _ = await outcome(sse(*says(), end="pings"))
    assert got.content == [{"type": "text", "text": "hello"}]
    assert made.noted() == ["replied"]
    got, made, _ = await outcome(sse(*says(), end="reset"))
    assert made.noted() == ["replied"]


async def test_a_cancelled_request_hangs_up() -> None:
    async with raw_server(sse(start(), end="pings")) as server:
        made = rig(server.url)
        asking = asyncio.ensure_future(made.model.complete(request()))
        await until(lambda: server.seen)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: server.gone)
        await made.model.close()
    assert made.notes == []


async def test_what_a_failed_try_cost_is_told() -> None:
    _, made, _ = await outcome(AGAIN["a clean end in the middle"], sse(*says()))
    assert made.notes[0].usage == Usage(input_tokens=12, output_tokens=40)


@pytest.fixture
async def hostile(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawServer]:
    """An environment that would redirect the run and add to its requests."""
    async with raw_server(sse(*says())) as elsewhere:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", elsewhere.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-environment")
        monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "environment-token")
        monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Evil: 1\nX-Api-Key: sk-evil")
        monkeypatch.setenv("HTTP_PROXY", elsewhere.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        yield elsewhere


async def test_the_environment_changes_nothing(hostile: RawServer) -> None:
    async with raw_server(sse(*says())) as server:
        made = rig(server.url)
        await made.model.complete(request())
        await made.model.close()
    headers = server.seen[0].headers
    assert hostile.seen == []
    assert "x-evil" not in headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-api-key"] == KEY


async def test_no_traceparent_goes_to_the_provider() -> None:
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider().get_tracer("t").start_as_current_span("outer"):
        _, _, server = await outcome(sse(*says()))
    assert "traceparent" not in server.seen[0].headers


async def test_an_override_wins_and_needs_no_key(hostile: RawServer) -> None:
    async with raw_server(sse(*says())) as server:
        made = rig(server.url, key=None, base_url=hostile.url)
        await made.model.complete(request())
        await made.model.close()
    assert hostile.seen == []
    assert server.seen[0].headers["authorization"] == "Bearer none"


async def test_a_gateway_keeps_its_path() -> None:
    async with raw_server(sse(*says())) as server:
        made = rig("", base_url=f"{server.url}/gw")
        await made.model.complete(request())
        await made.model.close()
    assert server.seen[0].path == "/gw/v1/messages"


async def test_without_key_and_gateway_nothing_is_sent() -> None:
    model = open_model(ModelSpec(name="m1"), api_key=None)
    with pytest.raises(ModelUnavailable, match="no API key") as caught:
        await model.complete(request())
    assert caught.value.auth


async def test_the_key_is_in_no_error_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = error(401, "authentication_error", f"Incorrect API key provided: {KEY}. Bearer {KEY}")
    got, made, _ = await outcome(echo)
    told = f"{got!s} {got!r} {made.notes} {got.__cause__} {made.model.__dict__}"
    assert KEY not in told
    assert KEY not in caplog.text
    assert "[key]" in str(got)


async def test_a_long_error_is_cut_and_on_one_line() -> None:
    got, _, _ = await outcome(error(400, "invalid_request_error", "line\n" * 1000))
    assert len(str(got)) < 400
    assert "\n" not in str(got)


async def test_a_certificate_bundle_is_all_that_is_trusted() -> None:
    with pytest.raises(InvalidSpec, match="caBundle"):
        open_model(ModelSpec(name="m"), api_key="k", ca_bundle="-----BEGIN nonsense")
    with pytest.raises(InvalidSpec, match="caBundle"):
        open_model(ModelSpec(name="m"), api_key="k", ca_bundle="/no/such/file")
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        open_model(ModelSpec(name="m"), api_key="k", ca_bundle=paths.cafile)


def test_a_provider_whose_package_is_missing_is_an_invalid_spec() -> None:
    spec = ModelSpec(name="m", provider=Provider.BEDROCK, bedrock=Bedrock(region="eu-central-1"))
    with pytest.raises(InvalidSpec, match="botocore"):
        open_model(spec, api_key=None)


async def test_many_requests_share_one_client() -> None:
    async with raw_server(sse(*says())) as server:
        made = rig(server.url)
        replies = await asyncio.gather(*(made.model.complete(request()) for _ in range(8)))
        await made.model.close()
    assert len(replies) == 8
    assert len(server.seen) == 8


async def test_a_large_reply() -> None:
    big = json.dumps({"text": "x" * 2_000_000})
    parts = [big[at : at + 50_000] for at in range(0, len(big), 50_000)]
    got, _, _ = await outcome(sse(start(), *tool(0, *parts), *stop("tool_use")))
    assert len(got.requested[0].arguments["text"]) == 2_000_000
