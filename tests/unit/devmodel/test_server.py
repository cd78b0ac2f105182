"""The server as a process and as a network peer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
import yaml
from tests.waiting import until

from agentrun.devmodel.handler import BODY_LIMIT

from .conftest import Connect, Start
from .requests import HELLO, ask, stream

HI = {"match": {"turn": 0}, "reply": {"text": "hi"}}


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_the_log_has_one_line_per_request(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    client = connect(start({"error": {"status": 529, "times": 1}}, HI, log=log))
    with pytest.raises(anthropic.OverloadedError):
        await ask(client)
    await stream(client)
    late = [*HELLO, {"role": "assistant", "content": "x"}, *HELLO]
    for messages in (late, []):
        with pytest.raises(anthropic.BadRequestError):
            await ask(client, messages)
    lines = _lines(log)
    assert [line["outcome"] for line in lines] == ["error 529", "reply", "no match", "invalid"]
    assert [line["rule"] for line in lines] == [0, 1, None, None]
    assert [line["turn"] for line in lines] == [0, 0, 1, None]
    assert all(abs(line["time"] - time.time()) < 60 for line in lines)


async def test_the_logged_hash_is_of_the_body_alone(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = start(HI, log=log)
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": HELLO}).encode()
    async with httpx2.AsyncClient(trust_env=False) as client:
        for header in ("1", "2"):
            url = f"http://127.0.0.1:{server.port}/gateway/v1/messages?beta=true"
            answer = await client.post(url, content=body, headers={"x-retry-count": header})
            assert answer.status_code == 200
    assert {line["sha256"] for line in _lines(log)} == {hashlib.sha256(body).hexdigest()}


async def test_the_line_is_there_before_a_delayed_answer(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    client = connect(start({**HI, "delay": 600}, log=log))
    asking = asyncio.create_task(ask(client))
    await asyncio.to_thread(until, lambda: log.exists() and _lines(log))
    assert not asking.done()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_parallel_requests_do_not_wait_for_each_other(start: Start, connect: Connect) -> None:
    slow = {"match": {"contains": "slow"}, "reply": {"text": "x"}, "delay": 600}
    client = connect(start(slow, HI))
    waiting = [
        asyncio.create_task(ask(client, [{"role": "user", "content": "slow"}])) for _ in range(8)
    ]
    answers = await asyncio.gather(*(ask(client) for _ in range(30)))
    assert len(answers) == 30
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_bodies_up_to_64_megabytes(start: Start) -> None:
    url = f"http://127.0.0.1:{start(HI).port}/v1/messages"
    head = b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"'
    body = head + b"x" * (BODY_LIMIT - len(head) - 4) + b'"}]}'
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        assert (await client.post(url, content=body)).status_code == 200


def test_a_larger_body_is_refused_unread(start: Start) -> None:
    server = start(HI)
    head = f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_LIMIT + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 10) as client:
        client.sendall(head.encode())
        answer = client.makefile("rb").read()
    assert b" 413 " in answer
    assert b"request_too_large" in answer


async def test_other_paths_and_bodies(start: Start) -> None:
    base = f"http://127.0.0.1:{start(HI).port}"
    async with httpx2.AsyncClient(trust_env=False, base_url=base) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/")).json()["error"]["type"] == "not_found_error"
        assert (await client.post("/v1/complete", content=b"{}")).status_code == 404
        for body in (b"", b"{", b"[]", b"[" * 100_000, b"{}", b'{"model":"m"}'):
            answer = await client.post("/v1/messages", content=body)
            assert answer.status_code == 400
            assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_a_stopped_server_ends_its_connections(start: Start, connect: Connect) -> None:
    """A kept-alive connection must not go on answering when the model is meant to be away."""
    server = start(HI)
    client = connect(server)
    await ask(client)
    server.shutdown()
    server.server_close()
    with pytest.raises(anthropic.APIConnectionError):
        await ask(client)


def _spawn(tmp_path: Path, *more: str) -> subprocess.Popen[bytes]:
    script = tmp_path / "s.yaml"
    script.write_text(yaml.safe_dump({"replies": [{**HI, "delay": 0}]}))
    words = [sys.executable, "-m", "agentrun.devmodel", str(script), *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_as_a_process(tmp_path: Path, number: int) -> None:
    ports, log = tmp_path / "port", tmp_path / "log"
    with _spawn(tmp_path, "--port-file", str(ports), "--log", str(log)) as process:
        port = int(until(lambda: ports.exists() and ports.read_text()))
        body = {"model": "m", "max_tokens": 1, "messages": HELLO}
        answer = httpx2.post(f"http://127.0.0.1:{port}/v1/messages", json=body, trust_env=False)
        assert answer.json()["content"] == [{"type": "text", "text": "hi"}]
        os.kill(process.pid, number)
        assert process.wait(10) == 0
    assert len(_lines(log)) == 1


def test_the_process_binds_to_loopback_by_default(tmp_path: Path) -> None:
    ports = tmp_path / "port"
    with _spawn(tmp_path, "--port-file", str(ports)) as process:
        port = int(until(lambda: ports.exists() and ports.read_text()))
        listening = Path("/proc/net/tcp").read_text().splitlines()
        process.terminate()
        process.wait(10)
    assert [line for line in listening if f"0100007F:{port:04X} 00000000:0000 0A" in line]
    assert not [line for line in listening if f"00000000:{port:04X} 00000000:0000 0A" in line]


def test_a_bad_script_or_a_taken_port_ends_with_2(tmp_path: Path, start: Start) -> None:
    taken = start(HI).port
    (tmp_path / "bad.yaml").write_text("replies: 3")
    for words in (
        [str(tmp_path / "bad.yaml")],
        [str(tmp_path / "script.json"), "--port", str(taken)],
    ):
        command = [sys.executable, "-m", "agentrun.devmodel", *words]
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(b"error: ")
