"""The model against the scripted Messages API: what the runner meets in local mode and in tests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.peers import modelscripts as ms
from tests.runner.adapters.replies import Rig, exactly, request, rig

from agentrun.devmodel import load_script, open_server
from agentrun.errors import ModelRefused, ModelUnavailable
from agentrun.run.exact import exact_json


async def ask(tmp_path: Path, rules: list[Any], *requests: Any, **options: Any) -> list[Any]:
    """Replies to ``requests`` of a model that plays ``rules``; its rig comes last."""
    script = tmp_path / "model.yaml"
    ms.save({"replies": rules}, script)
    got: list[Any] = []
    with open_server(load_script(script), log=tmp_path / "log") as server:
        made = rig(f"http://127.0.0.1:{server.port}", **options)
        try:
            for one in requests or (request(messages=[{"role": "user", "content": "hi"}]),):
                got.append(await made.model.complete(one))  # noqa: PERF401
        finally:
            await made.model.close()
    return [*got, made]


async def test_thinking_and_calls_come_as_scripted(tmp_path: Path) -> None:
    calls = [ms.call("restart", service="checkout"), ms.raw_call("add", '{"a": 1, "a": 2}')]
    rule = ms.reply(
        0, text="Looking.", tools=calls, thinking="hm", usage={"input": 120, "output": 40}
    )
    reply, _ = await ask(tmp_path, [rule])
    assert [part["type"] for part in reply.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert reply.content[0]["signature"]
    assert [call.name for call in reply.requested] == ["ops__restart", "ops__add"]
    assert reply.requested[1].arguments == {"a": 2}
    assert reply.requested[1].raw == '{"a": 1, "a": 2}'
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (120, 40)
    assert reply.stop_reason == "tool_use"


async def test_a_signed_reply_is_accepted_when_it_is_sent_back(tmp_path: Path) -> None:
    """What we kept is what the provider signed: altered thinking would be refused."""
    rules = [ms.reply(0, text="one", thinking="because"), ms.reply(1, text="two")]
    opening = [{"role": "user", "content": "hi"}]
    first, _ = await ask(tmp_path, rules, request(messages=opening))
    again = [*opening, {"role": "assistant", "content": first.content}, *opening]
    body = exact_json({"model": "m1", "max_tokens": 9, "stream": True, "messages": again})
    second, _ = await ask(tmp_path, rules, exactly(body))
    assert second.content == [{"type": "text", "text": "two"}]


async def test_the_logged_hash_is_the_hash_of_the_request(tmp_path: Path) -> None:
    one = request(messages=[{"role": "user", "content": "a\u00e9"}])
    await ask(tmp_path, [ms.reply(text="ok")], one)
    line = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert line["sha256"] == one.request_hash == hashlib.sha256(one.body).hexdigest()


async def test_an_overloaded_model_is_asked_again(tmp_path: Path) -> None:
    reply, made = await ask(tmp_path, [ms.error(529, times=2), ms.reply(text="ok")])
    assert reply.content[0]["text"] == "ok"
    assert made.noted() == ["retry", "retry", "replied"]


@pytest.mark.parametrize("cut", [True, "reset"])
async def test_a_cut_reply_is_no_reply(tmp_path: Path, cut: Any) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        await ask(tmp_path, [ms.reply(text="a long answer", cut=cut)])
    assert "(3 tries)" in str(caught.value)


async def test_no_matching_rule_is_a_refused_request(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused):
        await ask(tmp_path, [ms.reply(7, text="later")])


async def test_the_rig_waits_in_no_test(tmp_path: Path) -> None:
    *_, made = await ask(tmp_path, [ms.error(503, times=1), ms.reply(text="ok")])
    assert isinstance(made, Rig)
    assert len(made.waits) == 1
