"""The bundled server through the runner's tools: files come back with results, and go back before the first."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.runner.adapters.toolcalls import always, outgoing, tool_servers, until
from tests.unit.workspace.servers import Folder

from agentrun.api import Persistence
from agentrun.errors import CheckpointCorrupt, NotSent, ToolServerUnavailable
from agentrun.run.values import ToolAnswer, ToolSilence
from agentrun.runner.tools import Kind, Target, ToolServers
from agentrun.runner.tools.files import BATCH, PIECE

FOREVER = 4_000_000_000.0


@dataclass
class Desk:
    """A set of servers with a workspace in it, and what the loop would have in its store."""

    tools: ToolServers
    folder: Folder
    files: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    fetched: list[list[str]] = field(default_factory=list)
    calls: int = 0

    async def fetch(self, wanted: Sequence[str]) -> Mapping[str, bytes]:
        self.fetched.append(list(wanted))
        return {sha256: self.blobs[sha256] for sha256 in wanted if sha256 in self.blobs}

    def record(self, path: str, data: bytes, mode: int = 0o644) -> None:
        sha256 = hashlib.sha256(data).hexdigest()
        self.files[path] = (sha256, len(data), mode)
        self.blobs[sha256] = data

    async def restore(self) -> None:
        await self.tools.restore_files("ws", self.files, self.fetch)

    async def call(self, tool: str, key: str = "", **arguments: Any) -> Any:
        self.calls += 1
        call = outgoing("ws", tool, arguments, key=key or f"ar-{self.calls}")
        return await self.tools.call(call, may_send=always)

    async def write(self, path: str, content: str, **more: Any) -> ToolAnswer:
        got = await self.call("write_file", path=path, content=content, **more)
        assert isinstance(got, ToolAnswer), got
        return got


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, limit=128 << 20)


def workspace(folder: Folder, persistence: Persistence = Persistence.RECORD) -> Target:
    return Target(
        "ws",
        Kind.WORKSPACE,
        "http://localhost:1/mcp",
        socket=folder.socket,
        persistence=persistence,
    )


@pytest.fixture
def running(folder: Folder) -> Iterator[None]:
    with folder.process():
        yield


@pytest.fixture
async def desk(folder: Folder) -> AsyncIterator[Desk]:
    async with tool_servers(workspace(folder), patience=20) as opened:
        yield Desk(opened, folder)


@pytest.mark.usefixtures("running")
async def test_internal_tools_are_not_offered(desk: Desk) -> None:
    names = [tool.name for tool in await desk.tools.offered(["ws"])]
    assert "write_file" in names
    assert not [name for name in names if name.startswith("agentrun_")]


@pytest.mark.usefixtures("running")
async def test_h4_what_a_call_changed_comes_with_its_answer(desk: Desk) -> None:
    await desk.restore()
    got = await desk.write("a/ü b.txt", "hello\x00")
    (change,) = got.changes
    assert (change.path, change.size, change.mode) == ("a/ü b.txt", 6, 0o644)
    assert got.blobs == {change.sha256: b"hello\x00"}
    gone = await desk.call("delete_file", path="a/ü b.txt")
    assert [(c.path, c.sha256) for c in gone.changes] == [("a/ü b.txt", None)]
    assert gone.blobs == {}
    assert (await desk.call("list_files")).changes == ()


@pytest.mark.usefixtures("running")
async def test_an_empty_file_and_one_of_many_pieces(desk: Desk) -> None:
    got = await desk.write("empty", "")
    assert list(got.blobs.values()) == [b""]
    large = "x" * (2 * PIECE + 5)
    got = await desk.write("large", large)
    assert list(got.blobs.values()) == [large.encode()]


@pytest.mark.usefixtures("running")
async def test_h4_files_are_put_back_before_the_first_call(desk: Desk) -> None:
    """H4: the transcript says written, so the file is there."""
    desk.record("src/main.py", b"print(1)\n", 0o755)
    desk.record("empty", b"")
    desk.record("large.bin", bytes(range(256)) * ((PIECE // 256) + 3))
    await desk.restore()
    root = desk.folder.root
    for path, (sha256, size, mode) in desk.files.items():
        data = (root / path).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (sha256, size)
        assert (root / path).stat().st_mode & 0o777 == mode
    got = await desk.call("read_file", path="src/main.py")
    assert got.content[0]["text"] == "print(1)\n"


@pytest.mark.usefixtures("running")
async def test_what_is_there_already_is_not_fetched(desk: Desk) -> None:
    desk.record("a", b"one")
    await desk.restore()
    await desk.restore()
    assert len(desk.fetched) == 1


@pytest.mark.usefixtures("running")
async def test_contents_are_fetched_in_groups(desk: Desk) -> None:
    for n in range(3):
        desk.record(f"big-{n}", bytes([n]) * (BATCH * 2 // 3))
    await desk.restore()
    assert [len(group) for group in desk.fetched] == [1, 1, 1]


@pytest.mark.usefixtures("running")
async def test_a_content_that_the_store_lacks_is_a_corrupt_record(desk: Desk) -> None:
    desk.record("a", b"one")
    desk.blobs.clear()
    with pytest.raises(CheckpointCorrupt):
        await desk.restore()


@pytest.mark.usefixtures("running")
async def test_a_content_that_is_not_the_recorded_one_is_not_put_to_use(desk: Desk) -> None:
    desk.record("a", b"one")
    desk.blobs = dict.fromkeys(desk.blobs, b"two")
    with pytest.raises(ToolServerUnavailable, match="digest"):
        await desk.restore()


async def test_h4_a_server_that_lost_its_state_is_restored_again(
    desk: Desk, folder: Folder
) -> None:
    """Within one attempt: the recorded files, and what was written since, committed or not."""
    desk.record("old", b"recorded")
    desk.record("doomed", b"x")
    with folder.process():
        await desk.restore()
        await desk.write("new", "not in the store yet")
        await desk.call("delete_file", path="doomed")
    shutil.rmtree(folder.root)
    with folder.process():
        got = await desk.call("list_files")
        assert isinstance(got, ToolAnswer)
        assert {path.name: path.read_bytes() for path in folder.root.iterdir()} == {
            "old": b"recorded",
            "new": b"not in the store yet",
        }


async def test_a_server_that_kept_its_files_is_left_alone(desk: Desk, folder: Folder) -> None:
    desk.record("old", b"recorded")
    with folder.process():
        await desk.restore()
        await desk.write("new", "n")
    with folder.process():
        assert isinstance(await desk.call("list_files"), ToolAnswer)
    assert len(desk.fetched) == 1


async def test_a_used_workspace_with_other_files_is_not_called(desk: Desk, folder: Folder) -> None:
    desk.record("old", b"recorded")
    with folder.process():
        await desk.write("stray", "s")
        with pytest.raises(ToolServerUnavailable, match="used before it was restored"):
            await desk.restore()


async def test_a_call_under_which_the_server_changed_is_unknown(
    desk: Desk, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The adapter looked, and then another process answered: what it ran on is not what was recorded."""
    from agentrun.runner.tools.server import Server

    desk.record("old", b"recorded")
    with folder.process():
        await desk.restore()
        before = desk.tools._server("ws").mark()  # type: ignore[attr-defined]
    monkeypatch.setattr(Server, "mark", lambda self: before)
    shutil.rmtree(folder.root)
    with folder.process():
        got = await desk.call("write_file", path="new", content="n")
        assert isinstance(got, ToolSilence)
        assert "restarted" in got.why


@pytest.mark.usefixtures("running")
async def test_calls_run_one_at_a_time_and_changes_are_told_apart(desk: Desk) -> None:
    answers = await asyncio.gather(*(desk.write(f"f{n}", str(n)) for n in range(8)))
    for n, got in enumerate(answers):
        assert [change.path for change in got.changes] == [f"f{n}"]
        assert list(got.blobs.values()) == [str(n).encode()]


@pytest.mark.usefixtures("running")
async def test_a_call_past_its_time_was_not_sent(desk: Desk) -> None:
    call = outgoing("ws", "write_file", {"path": "a", "content": "b"})
    with pytest.raises(NotSent):
        await desk.tools.call(call, may_send=always, not_after=1.0)
    assert not (desk.folder.root / "a").exists()
    assert isinstance(await desk.tools.call(call, may_send=always, not_after=FOREVER), ToolAnswer)


@pytest.mark.usefixtures("running")
async def test_the_same_key_again_gets_the_same_answer_with_its_files(desk: Desk) -> None:
    first = await desk.write("a", "x", key="ar-k", append=True)
    again = await desk.write("a", "x", key="ar-k", append=True)
    assert again.content == first.content
    assert again.changes == first.changes
    assert again.blobs == first.blobs
    assert (desk.folder.root / "a").read_text() == "x"


@pytest.mark.usefixtures("running")
async def test_a_refused_write_is_an_error_result_without_changes(desk: Desk) -> None:
    got = await desk.write("../escape", "x")
    assert got.is_error
    assert got.changes == ()


@pytest.mark.usefixtures("running")
async def test_a_changed_file_that_is_gone_again_makes_the_call_unknown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentrun.runner.tools.server import Server

    read = Server.read

    async def late(self: Server, uri: str) -> bytes:
        (desk.folder.root / "a").write_text("meanwhile")
        return await read(self, uri)

    monkeypatch.setattr(Server, "read", late)
    got = await desk.call("write_file", path="a", content="mine")
    assert isinstance(got, ToolSilence)
    assert "not what the call left" in got.why


@pytest.mark.parametrize("persistence", [Persistence.NONE, Persistence.VOLUME])
async def test_unrecorded_workspaces_only_tell_that_they_were_restarted(
    folder: Folder, persistence: Persistence
) -> None:
    async with tool_servers(workspace(folder, persistence), patience=20) as opened:
        desk = Desk(opened, folder)
        seen = []
        for _ in range(2):
            with folder.process():
                got = await desk.write("a", "x")
                assert (got.changes, got.blobs) == ((), {})
                await desk.restore()
                seen.append(await opened.generation("ws"))
    assert desk.fetched == []
    if persistence is Persistence.NONE:
        assert None not in seen
        assert seen[0] != seen[1]
    else:
        assert seen == [None, None]


async def test_without_a_socket_nothing_is_there() -> None:
    lost = Target("ws", Kind.WORKSPACE, "http://localhost:1/mcp", persistence=Persistence.RECORD)
    async with tool_servers(lost, patience=60) as opened:
        with pytest.raises(ToolServerUnavailable, match="socket"):
            await opened.offered(["ws"])


@pytest.mark.usefixtures("running")
async def test_a_key_used_for_another_call_is_no_reason_to_ask_for_ever(desk: Desk) -> None:
    await desk.write("a", "x", key="ar-k")
    with pytest.raises(ToolServerUnavailable, match="turned it away") as caught:
        await desk.write("b", "y", key="ar-k")
    assert not isinstance(caught.value, NotSent)


async def test_a_call_waits_for_a_server_that_is_starting(desk: Desk, folder: Folder) -> None:
    asking = asyncio.ensure_future(desk.write("a", "x"))
    await asyncio.sleep(0)
    with folder.process():
        assert (await asking).changes
        await until(asking.done)
