"""Call keys, deadlines and order: a call is done once, in time, or says that it was not done."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from agentrun.workspace import protocol

from .servers import Folder

KEY = protocol.META_CALL_KEY
LIMIT = protocol.META_NOT_AFTER


async def test_the_same_key_returns_the_remembered_result(folder: Folder) -> None:
    async with folder.started() as talk:
        append: dict[str, Any] = {"path": "log", "content": "once\n", "append": True}
        first = await talk.call("write_file", meta={KEY: "ar-1"}, **append)
        again = await talk.call("write_file", meta={KEY: "ar-1"}, **append)
        other = await talk.call("write_file", meta={KEY: "ar-2"}, **append)
        read = await talk.call("read_file", meta={KEY: "ar-3"}, path="log")
        await talk.call("write_file", path="log", content="later")
        reread = await talk.call("read_file", meta={KEY: "ar-3"}, path="log")
    assert again.result == first.result
    assert other.changed[0]["size"] == 10
    assert reread.text == read.text == "once\nonce\n"


async def test_errors_are_remembered_too(folder: Folder) -> None:
    async with folder.started() as talk:
        first = await talk.call("read_file", meta={KEY: "ar-1"}, path="f")
        await talk.call("write_file", path="f", content="x")
        again = await talk.call("read_file", meta={KEY: "ar-1"}, path="f")
    assert first.failed
    assert again.result == first.result


async def test_a_key_belongs_to_one_call(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call("write_file", meta={KEY: "ar-1"}, path="f", content="x")
        other = await talk.call("write_file", meta={KEY: "ar-1"}, path="f", content="y")
        tool = await talk.call("delete_file", meta={KEY: "ar-1"}, path="f")
        assert (await talk.call("read_file", path="f")).text == "x"
    for said in (other, tool):
        assert said.failed
        assert said.not_sent
        assert "another call" in said.text


async def test_parallel_repetitions_of_one_call_are_done_once(folder: Folder) -> None:
    async with folder.started() as talk:
        calls = [
            talk.call("write_file", meta={KEY: f"ar-{i}"}, path="f", content=f"{i}\n", append=True)
            for i in range(10)
            for _ in range(3)
        ]
        await asyncio.gather(*calls)
        lines = (await talk.call("read_file", path="f")).text.splitlines()
    assert sorted(lines) == [str(i) for i in range(10)]


async def test_h66_a_call_that_arrives_late_is_not_done(folder: Folder) -> None:
    async with folder.started() as talk:
        late = await talk.call(
            "write_file", meta={LIMIT: time.time() - 0.1, KEY: "ar-1"}, path="f", content="x"
        )
        assert late.failed
        assert late.not_sent
        assert "after its deadline" in late.text
        assert (await talk.state())["fileCount"] == 0
        assert (await talk.state())["phase"] == "Fresh"
        meta = {LIMIT: time.time() + 60, KEY: "ar-1"}
        assert not (await talk.call("write_file", meta=meta, path="f", content="x")).failed


async def test_h66_a_late_repetition_of_a_done_call_is_not_called_undone(folder: Folder) -> None:
    async with folder.started() as talk:
        first = await talk.call("write_file", meta={KEY: "ar-1"}, path="f", content="x")
        meta = {KEY: "ar-1", LIMIT: time.time() - 60}
        late = await talk.call("write_file", meta=meta, path="f", content="x")
    assert late.result == first.result
    assert not late.not_sent


@pytest.mark.parametrize("limit", ["soon", True, [], "1e9"])
async def test_a_deadline_that_is_not_a_number_is_refused(folder: Folder, limit: Any) -> None:
    async with folder.stdio() as talk:
        said = await talk.call("write_file", meta={LIMIT: limit}, path="f", content="x")
        assert said.failed
        assert said.not_sent
        assert (await talk.state())["fileCount"] == 0


async def test_a_cancelled_call_is_whole_or_not_there(folder: Folder) -> None:
    """The runner is killed in the middle of a call: no half file, and the server lives on."""
    content = "x" * 900_000
    with folder.process():
        for number in range(10):
            async with folder.client() as talk:
                call = asyncio.create_task(talk.call("write_file", path="f", content=content))
                await asyncio.sleep(number / 1000)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
        async with folder.client() as talk:
            state = await talk.state()
    assert state["totalBytes"] in {0, len(content)}
    assert not list((folder.root / ".agentrun").glob("*"))
