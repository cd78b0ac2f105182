"""The test tool server: what it answers, and that its ledger tells asked from done."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ImageContent, TextContent
from tests.peers.toolserver import Count, counts, lines, requests_file
from tests.waiting import until

from .servers import KEY, Peer, http_peer

BOTH = ["stdio", "http"]


@pytest.fixture(params=BOTH)
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    if request.param == "stdio":
        yield Peer(tmp_path)
        return
    with http_peer(tmp_path) as started:
        yield started


def _text(result: Any) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_tool_answers_as_described(peer: Peer, mode: str) -> None:
    async with peer.client(mode) as client:
        assert _text(await client.call_tool("echo", {"text": "hé"})) == "hé"
        assert _text(await client.call_tool("add", {"a": 2, "b": 3})) == "5"
        assert _text(await client.call_tool("slow", {"seconds": 0.05, "text": "s"})) == "s"
        failed = await client.call_tool("fail", {"message": "no"})
        assert failed.is_error
        assert _text(failed) == "no"
        assert len(_text(await client.call_tool("big", {"bytes": 8 << 20}))) == 8 << 20
        images = (await client.call_tool("images", {"count": 3})).content
        assert len(images) == 3
        for image in images:
            assert isinstance(image, ImageContent)
            assert base64.b64decode(image.data).startswith(b"\x89PNG")
        assert (await client.call_tool("empty", {})).content == []
        assert _text(await client.call_tool("nul", {})) == "before\x00after"
        with_text = await client.call_tool("structured", {"text": True})
        assert with_text.structured_content == {"celsius": 21.5, "tags": ["a", "b"]}
        assert _text(with_text) == "21.5 C"
        assert (await client.call_tool("structured", {"text": False})).content == []
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("absent", {})


async def test_annotations_say_what_may_not_be_repeated(peer: Peer) -> None:
    async with peer.client() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    charge = tools["charge"].annotations
    assert charge is not None
    assert charge.destructive_hint is True
    assert charge.idempotent_hint is False
    assert tools["echo"].annotations is None


async def test_a_charge_happens_once_per_key(peer: Peer) -> None:
    async with peer.client() as client:
        for key in ("ar-1", "ar-1", "ar-2", None):
            meta: Any = {KEY: key, "agentrun.dev/attempt": 2} if key else None
            answer = await client.call_tool("charge", {"amount": 9}, meta=meta)
            assert _text(answer) == "charged 9"
        asked = await client.call_tool("find_charge", {"callKey": "ar-1"})
        unasked = await client.call_tool("find_charge", {"callKey": "ar-9"})
    assert asked.structured_content == {"found": True}
    assert unasked.structured_content == {"found": False}
    found = counts(peer.effects)
    assert found["ar-1"] == Count(requests=2, effects=1)
    assert found["ar-2"] == Count(requests=1, effects=1)
    first = lines(peer.effects)[0]
    assert {k: first[k] for k in ("key", "tool", "args", "attempt", "n")} == {
        "key": "ar-1",
        "tool": "charge",
        "args": {"amount": 9},
        "attempt": 2,
        "n": 1,
    }


async def test_other_tools_show_that_they_were_repeated(peer: Peer) -> None:
    """Only charge is idempotent: a second echo under one key is visible as a second effect."""
    meta: Any = {KEY: "ar-1"}
    async with peer.client() as client:
        await client.call_tool("echo", {"text": "x"}, meta=meta)
        await client.call_tool("echo", {"text": "x"}, meta=meta)
    assert counts(peer.effects)["ar-1"] == Count(requests=2, effects=2)
    assert [line["n"] for line in lines(peer.effects)] == [1, 2]


async def test_a_charge_is_remembered_by_the_next_process(tmp_path: Path) -> None:
    peer = Peer(tmp_path)
    for _ in range(2):
        async with peer.client() as client:
            await client.call_tool("charge", {"amount": 1}, meta={KEY: "ar-1"})  # type: ignore[arg-type]
    assert counts(peer.effects)["ar-1"] == Count(requests=2, effects=1)


async def test_parallel_charges_of_two_processes_happen_once(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with http_peer(tmp_path) as one:
        async with one.client() as first, Peer(tmp_path).client() as second:
            calls = [
                client.call_tool("charge", {"amount": 1}, meta={KEY: f"ar-{i}"})  # type: ignore[arg-type]
                for i in range(10)
                for client in (first, second)
            ]
            await asyncio.gather(*calls)
    found = counts(tmp_path / "effects")
    assert all(found[f"ar-{i}"] == Count(requests=2, effects=1) for i in range(10))


async def test_the_idempotency_header_is_recorded_and_serves_as_key(tmp_path: Path) -> None:
    headers: dict[str, str] = {"Idempotency-Key": "ar-7"}
    with http_peer(tmp_path) as peer:
        async with peer.client(**headers) as client:
            await client.call_tool("charge", {"amount": 1})
            await client.call_tool("charge", {"amount": 1}, meta={KEY: "ar-8"})  # type: ignore[arg-type]
    asked = lines(requests_file(peer.effects))
    assert [(line["key"], line["header"]) for line in asked] == [("ar-7", "ar-7"), ("ar-8", "ar-7")]
    assert asked[1]["meta"] == {"call-key": "ar-8"}


@pytest.mark.parametrize(("moment", "done"), [("start", 1), ("end", 0)])
async def test_slow_has_its_effect_at_the_chosen_moment(
    tmp_path: Path, moment: str, done: int
) -> None:
    with http_peer(tmp_path, "--effect-at", moment) as peer:
        async with peer.client() as client:
            call = asyncio.create_task(client.call_tool("slow", {"seconds": 600}))
            await asyncio.to_thread(until, lambda: lines(requests_file(peer.effects)))
            if done:
                await asyncio.to_thread(until, lambda: lines(peer.effects))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await client.call_tool("echo", {"text": "x"})
    tools = [line["tool"] for line in lines(peer.effects)]
    assert tools == ["slow", "echo"][1 - done :]


async def test_the_block_file_holds_the_answer_after_the_effect(tmp_path: Path) -> None:
    block = tmp_path / "block"
    block.touch()
    with http_peer(tmp_path, "--block-file", str(block)) as peer:
        async with peer.client() as client:
            call = asyncio.create_task(client.call_tool("charge", {"amount": 1}))
            await asyncio.to_thread(until, lambda: lines(peer.effects))
            assert not call.done()
            block.unlink()
            assert _text(await call) == "charged 1"


async def test_h7_a_detached_call_lands_after_its_client_has_gone(tmp_path: Path) -> None:
    """The zombie's call on the wire: verify would say no, and then it lands."""
    with http_peer(tmp_path, "--detach") as peer:
        async with peer.client() as client:
            call = asyncio.create_task(client.call_tool("slow", {"seconds": 0.5}))
            await asyncio.to_thread(until, lambda: lines(requests_file(peer.effects)))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert lines(peer.effects) == []
        await asyncio.to_thread(until, lambda: lines(peer.effects))


@pytest.mark.parametrize("effect", [False, True])
async def test_die_ends_the_server_in_the_middle_of_a_call(peer: Peer, effect: bool) -> None:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - a dead peer has many faces
        async with peer.client() as client:
            await client.call_tool("die", {"effect": effect}, meta={KEY: "ar-1"})  # type: ignore[arg-type]
    assert not isinstance(caught.value, AssertionError)
    assert counts(peer.effects)["ar-1"] == Count(requests=1, effects=int(effect))


@pytest.mark.parametrize("tool", ["hang", "surrogate"])
async def test_what_never_answers_ends_by_the_callers_deadline(tmp_path: Path, tool: str) -> None:
    """A lone surrogate in a result kills the SDK's stdio writer: the caller sees only silence."""
    with pytest.raises((MCPError, ExceptionGroup)):
        async with Peer(tmp_path).client() as client:
            await client.call_tool(tool, {}, read_timeout_seconds=0.5)
    assert len(lines(requests_file(tmp_path / "effects"))) == 1


async def test_a_tool_can_be_withdrawn(tmp_path: Path) -> None:
    async with Peer(tmp_path, ("--without", "charge")).client() as client:
        assert "charge" not in [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("charge", {"amount": 1})


def test_sigterm_ends_the_server_at_once(tmp_path: Path) -> None:
    with http_peer(tmp_path) as peer:
        assert peer.pid is not None
        os.kill(peer.pid, signal.SIGTERM)
        until(lambda: os.waitid(os.P_PID, peer.pid or 0, os.WEXITED | os.WNOHANG | os.WNOWAIT))
