"""Which rule answers: first match, by the request alone, errors used up one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest

from .conftest import Connect, Start
from .requests import HELLO, ask

CALL = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
ROUND = [
    {"role": "user", "content": "please look"},
    {"role": "assistant", "content": [CALL]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "7"}]}
        ],
    },
]


def _says(text: str, **match: Any) -> dict[str, Any]:
    return {"match": match, "reply": {"text": text}}


async def _text(client: anthropic.AsyncAnthropic, messages: Any = HELLO, **more: Any) -> str:
    return str((await ask(client, messages, **more))["content"][0]["text"])


async def test_a_reply_needs_every_condition_of_its_match(start: Start, connect: Connect) -> None:
    client = connect(
        start(
            _says("system", system="^You are (bob|eve)"),
            _says("model", model="opus"),
            _says("tool", tool="ops__restart"),
            _says("contains", contains="needle"),
            _says("turn", turn=1),
            _says("else"),
        )
    )
    offered = {"tools": [{"name": "ops__restart", "input_schema": {"type": "object"}}]}
    assert await _text(client, system="You are eve.") == "system"
    assert await _text(client, system=[{"type": "text", "text": "You are bob"}]) == "system"
    assert await _text(client, model="claude-opus") == "model"
    assert await _text(client, **offered) == "tool"
    assert await _text(client, [{"role": "user", "content": "a needle here"}]) == "contains"
    assert await _text(client, ROUND) == "turn"
    assert await _text(client) == "else"


async def test_contains_sees_tool_results_but_only_the_last_user_message(
    start: Start, connect: Connect
) -> None:
    client = connect(start(_says("first", contains="please"), _says("result", contains="7")))
    assert await _text(client, ROUND) == "result"


async def test_all_conditions_of_a_match_must_hold(start: Start, connect: Connect) -> None:
    client = connect(start(_says("both", turn=1, contains="absent"), _says("else")))
    assert await _text(client, ROUND) == "else"


async def test_no_match_is_a_400_that_names_the_turn(start: Start, connect: Connect) -> None:
    client = connect(start(_says("later", turn=5)))
    with pytest.raises(anthropic.BadRequestError, match="turn 1"):
        await ask(client, ROUND)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
async def test_errors_have_the_providers_format(
    start: Start, connect: Connect, status: int, kind: str
) -> None:
    client = connect(start({"error": {"status": status, "retryAfter": 1.5, "message": "no"}}))
    with pytest.raises(anthropic.APIStatusError) as caught:
        await ask(client)
    assert caught.value.status_code == status
    assert caught.value.type == kind
    assert caught.value.response.headers["retry-after"] == "1.5"
    assert caught.value.request_id is not None


async def test_an_error_can_arrive_inside_the_stream(start: Start, connect: Connect) -> None:
    client = connect(start({"error": {"status": 529, "inStream": True}}))
    reply = await client.messages.create(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}], stream=True
    )
    with pytest.raises(anthropic.APIStatusError) as caught:
        _ = [event async for event in reply]
    assert caught.value.status_code == 200
    assert caught.value.type == "overloaded_error"


async def test_an_error_is_used_up_and_then_the_next_match_answers(
    start: Start, connect: Connect
) -> None:
    first = {"match": {"turn": 0}, "error": {"status": 529, "times": 2}}
    second = {"match": {"turn": 0}, "error": {"status": 500, "times": 1}}
    client = connect(start(first, second, _says("at last")))
    assert await _text(client, ROUND) == "at last"
    seen = []
    for _ in range(3):
        with pytest.raises(anthropic.APIStatusError) as caught:
            await ask(client)
        seen.append(caught.value.status_code)
    assert seen == [529, 529, 500]
    assert await _text(client) == "at last"


async def test_parallel_requests_use_up_an_error_exactly(start: Start, connect: Connect) -> None:
    client = connect(start({"error": {"status": 529, "times": 5}}, _says("ok")))
    results = await asyncio.gather(*(ask(client) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(result, anthropic.APIStatusError) for result in results) == 5
    assert sum(isinstance(result, dict) for result in results) == 15
