"""Requests: what is sent, what an answer becomes, and what is counted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio import client

from agentrun.cluster.kube.refusal import Expired, refusal, retry_after
from agentrun.cluster.kube.resources import PODS, RUNS
from agentrun.cluster.kube.rest import Rest
from agentrun.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnavailable,
    Conflict,
    Forbidden,
    NotFound,
    Rejected,
)


def status(reason: str, message: str = "", **details: str) -> str:
    return json.dumps({"kind": "Status", "reason": reason, "message": message, "details": details})


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (404, status("NotFound", "no such pod", name="one"), NotFound),
        (404, status("NotFound", "could not find the requested resource"), ClusterUnavailable),
        (404, "404 page not found", ClusterUnavailable),
        (404, "[]", ClusterUnavailable),
        (409, status("AlreadyExists"), AlreadyExists),
        (409, status("Conflict"), Conflict),
        (409, "", Conflict),
        (403, status("Forbidden", "exceeded quota"), Forbidden),
        (401, "", ClusterUnavailable),
        (400, status("BadRequest"), Rejected),
        (422, status("Invalid"), Rejected),
        (413, "too large", Rejected),
        (410, status("Expired"), Expired),
        (429, "", ClusterUnavailable),
        (500, "<html>", ClusterUnavailable),
        (500, status("", "failed to create typed patch object (a/b): .spec.x: y"), Rejected),
        (504, status("Timeout"), ClusterUnavailable),
    ],
)
def test_answers_become_errors(code: int, text: str, expected: type[ClusterError]) -> None:
    error = refusal(code, text, "create pods", "team/one")
    assert type(error) is expected
    assert "create pods (team/one)" in str(error)


@pytest.mark.parametrize(
    "quoted",
    [
        'spec.prompt: Invalid value: "the prompt": too long',
        'spec.prompt: Invalid value: "the \\"prompt\\": x": too long',
        'spec.n: Unsupported value: "the prompt": supported values: "a", "b"',
        "spec.n: Invalid value: 77prompt: must be less",
    ],
)
def test_values_are_not_repeated(quoted: str) -> None:
    error = refusal(422, status("Invalid", quoted), "create agentruns", "team/one")
    text = str(error)
    assert "prompt:" not in text.replace("spec.prompt:", "")
    assert "the " not in text
    assert "spec." in text
    assert any(end in text for end in ("too long", "supported values", "must be less"))


@pytest.mark.parametrize(
    ("code", "header", "expected"),
    [
        (429, "3", 3.0),
        (429, None, 1.0),
        (503, "7", 7.0),
        (503, None, None),
        (500, "7", None),
        (504, "7", None),
    ],
)
def test_only_what_was_surely_not_executed_is_sent_again(
    code: int, header: str | None, expected: float | None
) -> None:
    assert retry_after(code, header) == expected


@dataclass
class Fake:
    """An API server of a few lines."""

    rest: Rest
    counted: list[tuple[str, str, int]]
    slept: list[float]
    seen: list[web.Request] = field(default_factory=list)


Answer = Callable[[int, web.Request], web.StreamResponse]


@asynccontextmanager
async def fake(answer: Answer, pool: int = 8) -> AsyncIterator[Fake]:
    counted: list[tuple[str, str, int]] = []
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        made.seen.append(request)
        return answer(len(made.seen), request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    running = web.AppRunner(app)
    await running.setup()
    site = web.TCPSite(running, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    settings = client.Configuration(host=f"http://127.0.0.1:{port}")
    settings.connection_pool_maxsize = pool
    settings.api_key["BearerToken"] = "bearer the-token"
    rest = Rest(
        client.ApiClient(settings),
        count=lambda verb, resource, code: counted.append((verb, resource, code)),
        sleep=sleep,
    )
    made = Fake(rest, counted, slept)
    try:
        yield made
    finally:
        await rest.close()
        await running.cleanup()


def ok(body: Any) -> web.Response:
    return web.json_response(body)


async def test_every_request_is_counted_by_verb_resource_and_code() -> None:
    codes = [200, 404, 201, 409]
    body = {"details": {"name": "one"}}
    async with fake(lambda n, _: web.json_response(body, status=codes[n - 1])) as api:
        await api.rest.call("get", PODS, "team", "one")
        with pytest.raises(NotFound):
            await api.rest.call("get", PODS, "team", "one")
        await api.rest.call("create", RUNS, "team", body={})
        with pytest.raises(Conflict):
            await api.rest.call("update", RUNS, "team", "one", sub="status", body={})
        assert api.counted == [
            ("get", "pods", 200),
            ("get", "pods", 404),
            ("create", "agentruns", 201),
            ("update", "agentruns/status", 409),
        ]


async def test_no_answer_is_counted_as_zero() -> None:
    def drop(_: int, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return ok({})

    async with fake(drop) as api:
        with pytest.raises(ClusterUnavailable):
            await api.rest.call("create", PODS, "team", body={"a": 1})
        assert api.counted == [("create", "pods", 0)]
        assert len(api.seen) == 1


async def test_the_token_is_sent() -> None:
    async with fake(lambda *_: ok({})) as api:
        await api.rest.call("get", PODS, "team", "one")
        assert api.seen[0].headers["Authorization"] == "bearer the-token"


async def test_a_busy_server_is_asked_again_when_it_says() -> None:
    def busy_twice(n: int, _: web.Request) -> web.Response:
        if n < 3:
            return web.Response(status=429, headers={"Retry-After": str(n + 1)})
        return ok({"fine": True})

    async with fake(busy_twice) as api:
        assert await api.rest.call("create", PODS, "team", body={}) == {"fine": True}
        assert api.slept == [2.0, 3.0]


async def test_an_api_server_that_stays_away_is_given_up() -> None:
    async with fake(lambda *_: web.Response(status=429, headers={"Retry-After": "9999"})) as api:
        with pytest.raises(ClusterUnavailable):
            await api.rest.call("get", PODS, "team", "one")
        assert len(api.seen) == 3
        assert max(api.slept) <= 10.0


async def test_lists_are_read_page_by_page() -> None:
    def page(n: int, request: web.Request) -> web.Response:
        assert request.query["limit"] == "500"
        assert request.query.get("labelSelector") == "a in (b,c)"
        assert request.query.get("continue") == (None if n == 1 else f"token{n}")
        more = {"continue": f"token{n + 1}"} if n < 3 else {}
        return ok({"metadata": more, "items": [{"n": n}]})

    async with fake(page) as api:
        items = await api.rest.pages(PODS, "team", {"labelSelector": "a in (b,c)"})
        assert [item["n"] for item in items] == [1, 2, 3]


async def test_a_list_that_expires_is_read_from_the_start() -> None:
    def page(n: int, request: web.Request) -> web.Response:
        if n == 2:
            return web.json_response({"reason": "Expired"}, status=410)
        more = {"continue": "token"} if n == 1 else {}
        assert ("continue" in request.query) == (n == 2)
        return ok({"metadata": more, "items": [{"n": n}]})

    async with fake(page) as api:
        assert [item["n"] for item in await api.rest.pages(PODS, None)] == [3]


async def test_a_list_that_always_expires_is_given_up() -> None:
    async with fake(lambda *_: web.json_response({"reason": "Expired"}, status=410)) as api:
        with pytest.raises(Expired):
            await api.rest.pages(PODS, None)
        assert len(api.seen) == 3


async def test_a_stream_is_given_line_by_line() -> None:
    async with fake(lambda *_: web.Response(text="one\ntwo\nthree")) as api:
        lines = [line async for line in api.rest.lines(PODS, "team", "one", "log", {})]
        assert lines == ["one", "two", "three"]


async def test_no_json_is_no_answer() -> None:
    async with fake(lambda *_: web.Response(text="<html>")) as api:
        with pytest.raises(ClusterUnavailable):
            await api.rest.call("get", PODS, "team", "one")
