"""The conversations the real API refuses are refused here too."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from .conftest import Connect, Start
from .requests import ask

ANY = {"reply": {"thinking": "deep", "tools": [{"id": "t1", "name": "a"}]}}


def _use(*ids: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": i, "name": "a", "input": {}} for i in ids],
    }


def _results(*ids: str, first: Any = None) -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids]
    return {"role": "user", "content": ([first] if first else []) + results}


USER = {"role": "user", "content": "go"}
TEXT = {"type": "text", "text": "and"}


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "at least one message"),
        ([_use("t1"), _results("t1")], "first message must use the user role"),
        ([USER, _use("t1")], "without `tool_result`"),
        ([USER, _use("t1", "t2"), _results("t1")], "t2"),
        ([USER, _use("t1"), USER, _results("t1")], "without `tool_result`"),
        ([USER, _use("t1"), _results("t2")], "without `tool_result`"),
        ([USER, _use("t1"), _results("t1", "t9")], "unexpected `tool_use_id`"),
        ([USER, _results("t1")], "unexpected `tool_use_id`"),
        ([USER, _use("t1"), _results("t1"), _results("t1")], "unexpected `tool_use_id`"),
        ([USER, _use("t1"), _results("t1", "t1")], "single result"),
        ([USER, _use("t1"), _results("t1", first=TEXT)], "must come first"),
        ([USER, _use("t1", "t1"), _results("t1")], "ids must be unique"),
        ([USER, _use("t 1"), _results("t 1")], "is not valid"),
        ([{"role": "user", "content": ""}], "must be non-empty"),
        ([{"role": "robot", "content": "x"}], "must be user or assistant"),
    ],
)
async def test_a_broken_conversation_is_a_400(
    start: Start, connect: Connect, messages: list[Any], said: str
) -> None:
    with pytest.raises(anthropic.BadRequestError, match=said) as caught:
        await ask(connect(start(ANY)), messages)
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [USER, USER],
        [USER, _use("t1", "t2"), _results("t2", "t1")],
        [USER, _use("t1"), {**_results("t1"), "content": [*_results("t1")["content"], TEXT]}],
        [USER, _use("t1"), _results("t1"), _use("t1"), _results("t1")],
        [USER, {"role": "assistant", "content": "partial"}],
    ],
)
async def test_a_sound_conversation_is_answered(
    start: Start, connect: Connect, messages: list[Any]
) -> None:
    """A tool_use id may come again in a later message: hazard H5 is real at this API."""
    assert (await ask(connect(start(ANY)), messages))["type"] == "message"


async def test_altered_thinking_is_refused(start: Start, connect: Connect) -> None:
    client = connect(start(ANY))
    content = (await ask(client))["content"]
    assert await ask(client, [USER, {"role": "assistant", "content": content}, _results("t1")])
    content[0]["thinking"] = "shallow"
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
        await ask(client, [USER, {"role": "assistant", "content": content}, _results("t1")])


async def test_foreign_signatures_are_not_judged(start: Start, connect: Connect) -> None:
    block = {"type": "thinking", "thinking": "x", "signature": "EqQBCgIYAhIM"}
    messages = [USER, {"role": "assistant", "content": [block, TEXT]}, USER]
    assert await ask(connect(start(ANY)), messages)


async def test_thinking_must_fit_into_max_tokens_and_goes_without_temperature(
    start: Start, connect: Connect
) -> None:
    client = connect(start(ANY))
    thinking = {"type": "enabled", "budget_tokens": 8000}
    with pytest.raises(anthropic.BadRequestError, match="budget_tokens"):
        await ask(client, thinking=thinking, max_tokens=4096)
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        await ask(client, thinking=thinking, max_tokens=12_096, extra_body={"temperature": 0.2})
    assert await ask(client, thinking=thinking, max_tokens=12_096)


async def test_tool_names_must_be_unique_and_legal(start: Start, connect: Connect) -> None:
    client = connect(start(ANY))
    for names, said in ((["a", "a"], "unique"), (["ops.restart"], "is not valid")):
        with pytest.raises(anthropic.BadRequestError, match=said):
            await ask(
                client, tools=[{"name": n, "input_schema": {"type": "object"}} for n in names]
            )
