"""The server as a process: its socket, its end, its imports."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from tests.waiting import until

from .servers import Folder, post


async def test_sigterm_ends_it_at_once_even_while_it_works(folder: Folder) -> None:
    """A native sidecar must not hold up the end of its pod."""
    folder.root.mkdir()
    (folder.root / "f").write_text("a" * 60 + "b")
    with folder.process() as process:
        async with folder.http() as http:
            assert await post(http, "list_files", {})
            start = _cpu(Path(f"/proc/{process.pid}/stat"))
            busy = asyncio.create_task(post(http, "search_files", {"pattern": "(a+)+$"}))
            ticks = Path(f"/proc/{process.pid}/stat")
            await asyncio.to_thread(until, lambda: _cpu(ticks) > start + 150)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 10) == 0
            with pytest.raises(httpx2.RemoteProtocolError):  # it was not answered first
                await busy


def _cpu(path: Path) -> int:
    fields = path.read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_handled_before_anything_slow(folder: Folder, number: int) -> None:
    with folder.process() as process:
        os.kill(process.pid, number)
        assert process.wait(10) == 0


async def test_the_socket_takes_connections_before_the_sdk_is_imported(folder: Folder) -> None:
    with folder.process():
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(folder.socket))
        async with folder.client() as talk:
            assert not (await talk.call("list_files")).failed


def test_the_socket_is_protected_by_its_folder(folder: Folder) -> None:
    with folder.process():
        assert stat.S_IMODE(folder.socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(folder.socket.stat().st_mode) == 0o660


def _open_folder(folder: Folder) -> Path:
    folder.socket.parent.mkdir()
    folder.socket.parent.chmod(0o755)
    return folder.socket


def _file_in_place(folder: Folder) -> Path:
    folder.socket.parent.mkdir(mode=0o700)
    folder.socket.write_text("precious")
    return folder.socket


def _too_long(folder: Folder) -> Path:
    return folder.path / ("l" * 90) / "ws"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_open_folder, b"open to everybody"),
        (_file_in_place, b"something else is there"),
        (_too_long, b"too long"),
    ],
)
def test_a_socket_that_cannot_be_used_is_refused(
    folder: Folder, make: Callable[[Folder], Path], said: bytes
) -> None:
    words = [sys.executable, *folder.words("--socket", str(make(folder)))]
    done = subprocess.run(words, capture_output=True, timeout=30, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    if make is _file_in_place:
        assert folder.socket.read_text() == "precious"


async def test_a_group_may_share_the_folder(folder: Folder) -> None:
    folder.socket.parent.mkdir()
    folder.socket.parent.chmod(0o2770)
    async with folder.started() as talk:
        assert not (await talk.call("list_files")).failed


async def test_a_restart_takes_over_the_socket_of_a_killed_server(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call("write_file", path="a", content="x")
    assert folder.socket.exists()
    async with folder.started() as talk:
        assert (await talk.call("read_file", path="a")).text == "x"


async def test_a_durable_server_does_the_same(folder: Folder) -> None:
    with folder.process("--durable"):
        async with folder.client() as talk:
            assert not (await talk.call("write_file", path="d/a", content="x")).failed
            assert not (await talk.call("delete_file", path="d/a")).failed


def test_stdio_ends_with_its_input(folder: Folder) -> None:
    words = [sys.executable, *folder.words("--stdio")]
    done = subprocess.run(words, input=b"", capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_broken_line_on_stdin_does_not_end_it(folder: Folder) -> None:
    words = [sys.executable, *folder.words("--stdio")]
    lines = b'{"broken\n"\\ud800"\n\xff\xfe\n{"jsonrpc":"2.0","id":7,"method":"ping"}\n'
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines)
        process.stdin.flush()
        answers = iter(process.stdout.readline, b"")
        assert any(b'"id":7' in line for line in answers)
        process.stdin.close()
        assert process.wait(20) == 0


@pytest.mark.parametrize("module", ["protocol", "serve", "state"])
def test_the_sdk_is_imported_only_when_it_serves(module: str) -> None:
    code = (
        f"import sys, agentrun.workspace.{module};"
        "sys.exit(any(m.split('.')[0] in {'mcp', 'uvicorn', 'pydantic'} for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
