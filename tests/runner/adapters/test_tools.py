"""Calls to a real MCP server, over streamable HTTP and over stdio."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.peers.toolserver import Count, counts, lines, requests_file
from tests.runner.adapters.toolcalls import always, outgoing, remote, tool_servers, until
from tests.unit.peers.servers import TOOLSERVER, http_peer

from agentrun.errors import NotSent, ToolServerUnavailable
from agentrun.run.values import ToolAnswer, ToolSilence
from agentrun.runner.tools import Kind, Target, ToolServers

TRANSPORTS = ["http", "stdio"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Scene:
    """A set of servers with one server in it, the server's ledger, and a call key of the test's own."""

    tools: ToolServers
    effects: Path
    is_http: bool
    key: str = field(default_factory=lambda: f"ar-{uuid.uuid4().hex}")

    async def call(self, tool: str, timeout_ms: int = 20_000, **arguments: Any) -> Any:
        call = outgoing("ops", tool, arguments, timeout_ms=timeout_ms, key=self.key)
        return await self.tools.call(call, may_send=always)

    async def answer(self, tool: str, **arguments: Any) -> ToolAnswer:
        got = await self.call(tool, **arguments)
        assert isinstance(got, ToolAnswer), got
        return got

    def requests(self) -> list[dict[str, Any]]:
        return [line for line in lines(requests_file(self.effects)) if line["key"] == self.key]

    def count(self, key: str = "") -> Count:
        return counts(self.effects).get(key or self.key, Count(0, 0))


@asynccontextmanager
async def opened_scene(transport: str, folder: Path) -> AsyncIterator[Scene]:
    is_http = transport == "http"
    with http_peer(folder) if is_http else nullcontext(None) as peer:
        words = (sys.executable, str(TOOLSERVER), "--effects", str(folder / "effects"))
        there = (
            remote(f"http://127.0.0.1:{peer.port}")
            if peer is not None
            else Target("ops", Kind.CHILD, command=words)
        )
        async with tool_servers(there) as opened:
            yield Scene(opened, folder / "effects", is_http)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=TRANSPORTS)
async def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Scene]:
    """One server and one connection for all tests of a transport: starting one costs a second."""
    async with opened_scene(request.param, tmp_path_factory.mktemp("peer")) as scene:
        yield scene


@pytest.fixture
def scene(shared: Scene) -> Scene:
    return Scene(shared.tools, shared.effects, shared.is_http)


async def test_tools_are_offered_as_their_server_describes_them(scene: Scene) -> None:
    offered = {tool.name: tool for tool in await scene.tools.offered(["ops"])}
    assert list(offered)[:2] == ["echo", "add"]
    assert offered["echo"].server == "ops"
    assert offered["echo"].description == "test tool echo"
    assert offered["echo"].input_schema["required"] == ["text"]
    assert offered["echo"].annotations is None
    assert offered["charge"].annotations == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
    }


async def test_a_text_comes_back(scene: Scene) -> None:
    got = await scene.answer("echo", text="hi")
    assert got.content == [{"type": "text", "text": "hi"}]
    assert (got.is_error, got.changes, got.blobs, got.sanitized) == (False, (), {}, 0)


async def test_the_tool_is_told_who_calls(scene: Scene) -> None:
    await scene.answer("echo", text="hi")
    (line,) = scene.requests()
    assert line["meta"] == {
        "call-key": scene.key,
        "run-uid": "uid-1",
        "run-id": "incident-42",
        "task": "main",
        "call-id": "toolu_1",
        "attempt": 2,
        "agent": "sre",
    }
    assert line["header"] == (scene.key if scene.is_http else None)


async def test_arguments_arrive_exactly(scene: Scene) -> None:
    sent = {
        "text": "a\x00b\U0001f600",
        "n": 10**30,
        "f": 1.5,
        "none": None,
        "deep": [None, {"x": 1}],
    }
    await scene.answer("echo", **sent)
    assert scene.requests()[0]["args"] == sent


async def test_an_error_result_is_an_answer(scene: Scene) -> None:
    got = await scene.answer("fail", message="no such service")
    assert got.is_error
    assert got.content == [{"type": "text", "text": "no such service"}]


async def test_an_unknown_tool_is_the_servers_answer(scene: Scene) -> None:
    got = await scene.answer("no_such_tool")
    assert got.is_error
    assert "Unknown tool: no_such_tool" in got.content[0]["text"]


async def test_an_empty_result_is_an_empty_list(scene: Scene) -> None:
    assert (await scene.answer("empty")).content == []


async def test_nul_bytes_pass(scene: Scene) -> None:
    assert (await scene.answer("nul")).content[0]["text"] == "before\x00after"


async def test_a_result_of_eight_megabytes_arrives_whole(scene: Scene) -> None:
    got = await scene.answer("big", bytes=8 << 20)
    assert len(got.content[0]["text"]) == 8 << 20


async def test_thirty_images_in_one_result_arrive(scene: Scene) -> None:
    got = await scene.answer("images", count=30)
    assert len(got.content) == 30
    assert {block["source"]["media_type"] for block in got.content} == {"image/png"}


async def test_structured_content_only_where_text_is_absent(scene: Scene) -> None:
    assert (await scene.answer("structured")).content == [{"type": "text", "text": "21.5 C"}]
    only = await scene.answer("structured", text=False)
    assert only.content == [{"type": "text", "text": '{"celsius":21.5,"tags":["a","b"]}'}]


async def test_lone_surrogates_in_arguments_are_replaced_and_counted(scene: Scene) -> None:
    got = await scene.answer("echo", text="a\ud800", **{"k\udc00": ["\udfff"]})
    assert got.content[0]["text"] == "a\ufffd"
    assert got.sanitized == 3
    assert (await scene.answer("echo", text="still there")).sanitized == 0


async def test_a_timeout_is_silence_and_the_server_stays(scene: Scene) -> None:
    """H3: the effect may have happened."""
    got = await scene.call("slow", timeout_ms=300, seconds=5)
    assert isinstance(got, ToolSilence)
    assert "no answer within 0.3 s" in got.why
    assert (await scene.answer("echo", text="hi")).content


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_that_dies_in_the_middle_is_silence(transport: str, tmp_path: Path) -> None:
    """H3 again: sent, and nobody answers."""
    async with opened_scene(transport, tmp_path) as scene:
        assert isinstance(await scene.call("die", effect=True), ToolSilence)
        assert scene.count().effects == 1


async def test_the_same_call_again_has_the_same_key(scene: Scene) -> None:
    for _ in range(2):
        await scene.answer("charge", amount=5)
    assert scene.count() == Count(requests=2, effects=1)


async def test_repeated_ids_of_the_model_are_two_calls(scene: Scene) -> None:
    """H5: the key is by position; the model's id is only passed on."""
    keys = (f"{scene.key}-a", f"{scene.key}-b")
    for key in keys:
        await scene.tools.call(
            outgoing(tool="charge", arguments={"amount": 1}, key=key, model_id="toolu_same"),
            may_send=always,
        )
    assert [scene.count(key).effects for key in keys] == [1, 1]


async def test_what_may_not_be_sent_is_not_sent(scene: Scene) -> None:
    await scene.answer("echo", text="connected")
    asked = 0

    def no() -> bool:
        nonlocal asked
        asked += 1
        return False

    with pytest.raises(NotSent):
        await scene.tools.call(outgoing(tool="charge", key=f"{scene.key}-no"), may_send=no)
    assert asked == 1
    assert scene.count(f"{scene.key}-no").requests == 0


async def test_many_calls_at_once_are_told_apart(scene: Scene) -> None:
    async def one(n: int) -> None:
        arguments = {"seconds": 0.05, "text": str(n)}
        call = outgoing(tool="slow", arguments=arguments, key=f"{scene.key}-{n}")
        got = await scene.tools.call(call, may_send=always)
        assert isinstance(got, ToolAnswer)
        assert got.content[0]["text"] == str(n)

    await asyncio.gather(*(one(n) for n in range(20)))
    assert [scene.count(f"{scene.key}-{n}") for n in range(20)] == [Count(1, 1)] * 20
    for line in lines(requests_file(scene.effects)):
        assert line["header"] in (None, line["key"])


async def test_a_cancelled_call_leaves_the_connection_alone(scene: Scene) -> None:
    asking = asyncio.ensure_future(scene.call("hang"))
    await until(scene.requests)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await scene.answer("echo", text="hi")).content


async def test_surrogates_in_an_answer_are_replaced_and_counted(tmp_path: Path) -> None:
    with http_peer(tmp_path) as peer:
        async with tool_servers(remote(f"http://127.0.0.1:{peer.port}")) as opened:
            got = await opened.call(outgoing(tool="surrogate"), may_send=always)
    assert isinstance(got, ToolAnswer)
    assert got.content == [{"type": "text", "text": "before\ufffdafter"}]
    assert got.sanitized == 1


async def test_a_restarted_http_server_is_found_again(tmp_path: Path) -> None:
    with http_peer(tmp_path) as peer:
        url = f"http://127.0.0.1:{peer.port}"
        async with tool_servers(remote(url)) as opened:
            await opened.call(outgoing(arguments={"text": "a"}), may_send=always)
            assert peer.pid is not None
            os.kill(peer.pid, signal.SIGKILL)
            await until(lambda: not _listens(peer.port))
            with pytest.raises(ToolServerUnavailable, match="connection refused"):
                await opened.call(outgoing(arguments={"text": "b"}), may_send=always)
            (tmp_path / "port").unlink()
            with http_peer(tmp_path, "--port", str(peer.port)):
                got = await opened.call(outgoing(arguments={"text": "c"}), may_send=always)
    assert isinstance(got, ToolAnswer)


async def test_several_servers_are_listed_in_the_order_asked(tmp_path: Path) -> None:
    words = (sys.executable, str(TOOLSERVER), "--effects")
    servers = {
        name: Target(name, Kind.CHILD, command=(*words, str(tmp_path / name))) for name in "ab"
    }
    async with tool_servers(*servers.values()) as opened:
        offered = await opened.offered(["b", "a"])
    half = len(offered) // 2
    assert half > 0
    assert [tool.server for tool in offered] == ["b"] * half + ["a"] * half


async def test_a_server_the_spec_does_not_name(tmp_path: Path) -> None:
    async with tool_servers() as opened:
        with pytest.raises(ToolServerUnavailable, match="no such server"):
            await opened.offered(["ghost"])


async def test_patience_waits_for_a_server_that_is_about_to_listen(tmp_path: Path) -> None:
    with http_peer(tmp_path) as gone:
        url = f"http://127.0.0.1:{gone.port}"
    (tmp_path / "port").unlink()
    waits: list[float] = []
    async with tool_servers(remote(url), patience=60, sleep=lambda s: _doze(waits, s)) as opened:
        listing = asyncio.ensure_future(opened.offered(["ops"]))
        await until(lambda: len(waits) > 2)
        with http_peer(tmp_path, "--port", str(gone.port)):
            assert await listing
    assert waits == sorted(waits) or max(waits) <= 2


def _listens(port: int | None) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port or 0)) == 0


async def _doze(waits: list[float], seconds: float) -> None:
    waits.append(seconds)
    await asyncio.sleep(min(seconds, 0.05))
