"""Servers that are child processes: what they may print, and that nothing of them stays behind."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.runner.adapters.toolcalls import always, outgoing, tool_servers, until

from agentrun.errors import ToolServerUnavailable
from agentrun.run.values import ToolAnswer, ToolSilence
from agentrun.runner.tools import Kind, Target

SERVER = """
import json, os, subprocess, sys, time

def say(text):
    sys.stdout.buffer.write(text if isinstance(text, bytes) else text.encode())
    sys.stdout.buffer.write(b"\\n")
    sys.stdout.flush()

def answer(request, result):
    say(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}))

def greet(request):
    if request["method"] == "initialize":
        info = {"name": "raw", "version": "1"}
        answer(request, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif request["method"] == "tools/list":
        answer(request, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
    elif "id" in request:
        error = {"code": -32601, "message": "Method not found"}
        say(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}))

def called(request):
    CALLED

SETUP
for line in sys.stdin:
    request = json.loads(line)
    called(request) if request["method"] == "tools/call" else greet(request)
ENDED
"""


def child(called: str, *, setup: str = "", ended: str = "", **more: Any) -> Target:
    """A server whose tools/call does this with ``request``."""
    body = textwrap.indent(textwrap.dedent(called).strip(), "    ").strip()
    code = SERVER.replace("CALLED", body).replace("SETUP", setup).replace("ENDED", ended)
    return Target("ops", Kind.CHILD, command=(sys.executable, "-c", code), **more)


def quoted(text: str) -> str:
    result = f'{{"content":[{{"type":"text","text":"{text}"}}]}}'
    return f"""say('{{"jsonrpc":"2.0","id":' + str(request["id"]) + r',"result":{result}}}')"""


async def call(target: Target, **more: Any) -> Any:
    async with tool_servers(target) as opened:
        return await opened.call(outgoing(**more), may_send=always)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def test_stray_output_is_passed_over() -> None:
    got = await call(child("say('starting up...'); say(''); say('{}'); " + quoted("hi")))
    assert isinstance(got, ToolAnswer), got
    assert got.content == [{"type": "text", "text": "hi"}]


async def test_a_lone_surrogate_in_an_answer_is_replaced() -> None:
    got = await call(child(quoted(r"a\ud800b")))
    assert isinstance(got, ToolAnswer), got
    assert got.content[0]["text"] == "a\ufffdb"
    assert got.sanitized == 1


@pytest.mark.parametrize(
    "line",
    [
        """b'{"jsonrpc":"2.0","id":%d,"result":{"text":"\\xff"}}' % request["id"]""",
        """b'{"jsonrpc":"2.0","id":%d,"result":{"content":[' % request["id"]""",
        """b'{"jsonrpc":"2.0","id":%d,"result":7}' % request["id"]""",
    ],
    ids=["bad UTF-8", "half a message", "no object"],
)
async def test_an_answer_that_cannot_be_decoded_is_silence_at_once(line: str) -> None:
    got = await call(child(f"say({line})"), timeout_ms=600_000)
    assert isinstance(got, ToolSilence), got
    assert "Failed to parse" in got.why


async def test_h32_the_end_of_the_server_is_silence_and_a_new_one_is_started() -> None:
    target = child(
        f"time.sleep(0) if 'x' in request['params']['arguments'] else os._exit(1); {quoted('hi')}"
    )
    async with tool_servers(target) as opened:
        assert await opened.generation("ops") is None
        first = await opened.call(outgoing(arguments={"x": 1}), may_send=always)
        assert isinstance(first, ToolAnswer)
        assert await opened.generation("ops") == "life 1"
        assert isinstance(await opened.call(outgoing(), may_send=always), ToolSilence)
        again = await opened.call(outgoing(arguments={"x": 1}), may_send=always)
        assert isinstance(again, ToolAnswer)
        assert await opened.generation("ops") == "life 2"


async def test_a_line_of_many_megabytes() -> None:
    got = await call(
        child("answer(request, {'content': [{'type': 'text', 'text': 'x' * (16 << 20)}]})")
    )
    assert isinstance(got, ToolAnswer)
    assert len(got.content[0]["text"]) == 16 << 20


async def test_nothing_is_sent_without_permission(tmp_path: Path) -> None:
    log = tmp_path / "log"
    target = child(f"open({str(log)!r}, 'a').write('x'); {quoted('hi')}")
    async with tool_servers(target) as opened:
        await opened.offered(["ops"])
        with pytest.raises(ToolServerUnavailable):
            await opened.call(outgoing(), may_send=lambda: False)
        await opened.call(outgoing(), may_send=always)
    assert log.read_text() == "x"


GRANDCHILD = "helper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"


@pytest.mark.parametrize(
    ("setup", "ended"),
    [
        (GRANDCHILD, ""),
        (f"import signal; signal.signal(15, signal.SIG_IGN); {GRANDCHILD}", "time.sleep(600)"),
    ],
    ids=["ends by itself", "must be killed"],
)
async def test_the_whole_group_ends_with_the_connection(setup: str, ended: str) -> None:
    tell = "answer(request, {'content': [{'type': 'text', 'text': f'{os.getpid()} {helper.pid}'}]})"
    async with tool_servers(child(tell, setup=setup, ended=ended)) as opened:
        got = await opened.call(outgoing(), may_send=always)
        assert isinstance(got, ToolAnswer)
        pids = [int(pid) for pid in got.content[0]["text"].split()]
        assert os.getpgid(pids[1]) == pids[0] != os.getpgrp()
    await until(lambda: not any(alive(pid) for pid in pids))


async def test_the_child_gets_its_own_environment_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    tell = "answer(request, {'content': [{'type': 'text', 'text': json.dumps(dict(os.environ))}]})"
    got = await call(child(tell, env={"OPS_TOKEN": "t"}))
    assert isinstance(got, ToolAnswer)
    assert '"OPS_TOKEN": "t"' in got.content[0]["text"]
    assert "sk-secret" not in got.content[0]["text"]


@pytest.mark.parametrize("command", [("/no/such/program",), (sys.executable, "-c", "pass")])
async def test_a_command_that_does_not_serve(command: tuple[str, ...]) -> None:
    async with tool_servers(Target("ops", Kind.CHILD, command=command)) as opened:
        with pytest.raises(ToolServerUnavailable):
            await opened.offered(["ops"])


async def test_a_program_that_is_not_there_is_named_without_its_arguments() -> None:
    async with tool_servers(
        Target("ops", Kind.CHILD, command=("/no/such/program", "--key=s"))
    ) as opened:
        with pytest.raises(ToolServerUnavailable) as caught:
            await opened.offered(["ops"])
    assert "its command program cannot be started" in str(caught.value)
    assert "--key" not in str(caught.value)


async def test_two_requests_that_cross_reach_their_own_callers() -> None:
    code = """
    held = globals().setdefault("held", [])
    held.append(request)
    if len(held) == 2:
        for one in reversed(held):
            answer(one, {"content": [{"type": "text", "text": one["params"]["arguments"]["n"]}]})
    """
    import asyncio

    async with tool_servers(child(code)) as opened:
        got = await asyncio.gather(
            *(opened.call(outgoing(arguments={"n": n}), may_send=always) for n in "ab")
        )
    assert [one.content[0]["text"] for one in got if isinstance(one, ToolAnswer)] == ["a", "b"]
