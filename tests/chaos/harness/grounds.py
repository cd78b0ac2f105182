"""What all scenes of a session share: PostgreSQL, the tool server, and somebody who cleans up.

Pods are made to outlive whoever started them, so a test process that dies (a timeout, Ctrl-C) must
not leave them behind: ``reaper.py`` waits for its end and stops everything below the session's folder.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.chaos.harness.concurrent_tests import Overlap

from agentrun.cli.postgres import Dsns
from agentrun.store.embedded import EmbeddedPostgres

T = TypeVar("T")
TOOLSERVER = Path(__file__).parents[2] / "peers" / "toolserver.py"
REAPER = Path(__file__).with_name("reaper.py")
POSTGRES, PIDS = "postgres", "pids"
"""Names below a folder of the session that the reaper looks for."""
FAST = {"fsync": "off", "full_page_writes": "off"}
"""Loses nothing when processes are killed, only when the machine is."""
PATIENCE = 60.0
LOOK = 0.05


@dataclass(frozen=True)
class ToolServer:
    """A tool server over HTTP, and the ledger of what it did."""

    url: str
    effects: Path


@dataclass(frozen=True)
class Grounds:
    """The session's folder, database and tool server. ``folder`` makes a new one for a scene."""

    root: Path
    dsns: Dsns
    template: Path
    tools: ToolServer
    overlap: Overlap = field(default_factory=Overlap)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _once: dict[object, asyncio.Task[Any]] = field(default_factory=dict)

    def folder(self, name: str) -> Path:
        """A new folder with a short name: sockets are made in it."""
        made = self.root / f"{name[:12]}-{next(self._numbers)}"
        made.mkdir()
        return made

    async def once(self, scene: Callable[[Grounds], Awaitable[T]]) -> T:
        """What a scene comes to that several tests compare theirs with; it plays once."""
        if scene not in self._once:
            self._once[scene] = asyncio.ensure_future(scene(self))
        result: T = await asyncio.shield(self._once[scene])
        return result


@contextmanager
def grounds(root: Path) -> Iterator[Grounds]:
    """Everything shared, until the end of the session."""
    (root / PIDS).mkdir(parents=True)
    with reaped(root):
        template = make_template(root / "template")
        with postgres(root, template, FAST) as server, tool_server(root) as tools:
            made = Grounds(root, Dsns(server.dsn, server.runner_dsn), template, tools)
            try:
                yield made
            finally:
                made.overlap.end()


def make_template(folder: Path) -> Path:
    """A stopped database with the schema in it: copying it is faster than making one."""
    server = EmbeddedPostgres(folder / POSTGRES, settings=FAST)
    server.start()
    server.leave()
    return server.data


@contextmanager
def postgres(
    folder: Path, template: Path, settings: Mapping[str, str] | None = None
) -> Iterator[EmbeddedPostgres]:
    """A database of its own, running until the end of the block."""
    server = EmbeddedPostgres(folder / POSTGRES, settings=settings, template=template)
    server.start()
    try:
        yield server
    finally:
        server.stop(immediate=True)


@contextmanager
def tool_server(root: Path, *options: str) -> Iterator[ToolServer]:
    """A process of ``tests/peers/toolserver.py``; calls whose client has gone go on."""
    effects = root / f"effects-{time.monotonic_ns()}.jsonl"
    port = effects.with_suffix(".port")
    words = [sys.executable, str(TOOLSERVER), "--effects", str(effects), "--detach", *options]
    process = subprocess.Popen([*words, "--port", "0", "--port-file", str(port)])
    remember(root, process.pid)
    try:
        wait_for(lambda: port.exists() or process.poll() is not None, "the tool server listens")
        yield ToolServer(f"http://127.0.0.1:{port.read_text().strip()}/mcp", effects)
    finally:
        process.kill()
        process.wait()


def remember(root: Path, pid: int) -> None:
    """Let the reaper know of a process that is in no pod."""
    (root / PIDS / str(pid)).touch()


@contextmanager
def reaped(root: Path) -> Iterator[None]:
    """Whatever happens to this process, nothing below ``root`` goes on running."""
    process = subprocess.Popen(
        [sys.executable, str(REAPER), str(root)], stdin=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        process.wait(PATIENCE)


def wait_for(holds: Callable[[], object], what: str) -> None:
    """Poll a plain function until it is true."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(LOOK)
