"""The files of a run come back before the next attempt's first call, or nothing runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from agentrun.workspace import protocol
from agentrun.workspace.protocol import FileEntry, resource_uri, tree_digest

from .servers import Folder, Talk

ODD = "sub dir/ü%?#&=+;:@.txt"


async def _record(talk: Talk) -> dict[str, tuple[FileEntry, bytes]]:
    """Write some files and record them the way a runner does, from the results' meta."""
    record: dict[str, tuple[FileEntry, bytes]] = {}
    for path, content in (("a/b.txt", "bé"), (ODD, "odd"), ("empty", ""), ("gone", "x")):
        said = await talk.call("write_file", path=path, content=content)
        for change in said.changed:
            entry = FileEntry(**change)
            record[entry.path] = (entry, await talk.fetch(resource_uri(entry.path)))
    said = await talk.call("delete_file", path="gone")
    for change in said.changed:
        assert change["deleted"]
        del record[change["path"]]
    return record


async def _put_back(talk: Talk, record: dict[str, tuple[FileEntry, bytes]]) -> None:
    await talk.call(protocol.RESTORE_BEGIN)
    for entry, data in record.values():
        assert not (await talk.restore_file(entry.path, data, entry.mode)).failed
    digest = tree_digest(entry for entry, _ in record.values())
    done = await talk.call(protocol.RESTORE_DONE, files=len(record), digest=digest)
    assert not done.failed, done.text


async def test_h4_a_lost_folder_is_rebuilt_from_the_record(folder: Folder) -> None:
    """The next attempt's server, on an empty folder, ends up with the same tree and listing."""
    async with folder.started() as talk:
        record = await _record(talk)
        listing = (await talk.call("list_files")).text
        before = await talk.state()
    assert before["digest"] == tree_digest(entry for entry, _ in record.values())
    with tempfile.TemporaryDirectory(prefix="ws") as other:
        async with Folder(Path(other)).started() as talk:
            await _put_back(talk, record)
            after = await talk.state()
            assert (await talk.call("list_files")).text == listing
            assert (await talk.call("read_file", path=ODD)).text == "odd"
    assert (after["digest"], after["fileCount"]) == (before["digest"], 3)
    assert after["generation"] != before["generation"]


async def test_h4_an_emptied_folder_and_a_restarted_server_are_noticed(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call("write_file", path="a", content="x")
        written = await talk.state()
        shutil.rmtree(folder.root)
        folder.root.mkdir()
        emptied = await talk.state()
    async with folder.started() as talk:
        restarted = await talk.state()
    assert (written["fileCount"], emptied["fileCount"]) == (1, 0)
    assert written["digest"] != emptied["digest"]
    assert written["generation"] == emptied["generation"] != restarted["generation"]


async def test_the_state_sees_every_kind_of_change(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call("write_file", path="a", content="12345")
        seen = {(await talk.state())["digest"]}
        file = folder.root / "a"
        for change in (
            lambda: file.write_text("54321"),
            lambda: file.chmod(0o600),
            lambda: file.rename(folder.root / "b"),
        ):
            change()
            digest = (await talk.state())["digest"]
            assert digest not in seen
            seen.add(digest)


async def test_every_result_names_the_generation(folder: Folder) -> None:
    async with folder.started() as talk:
        generation = (await talk.state())["generation"]
        assert (await talk.call("list_files")).meta[protocol.META_GENERATION] == generation


async def test_large_files_are_restored_in_pieces_that_may_be_repeated(folder: Folder) -> None:
    data = os.urandom(700_000)
    async with folder.started() as talk:
        await talk.call(protocol.RESTORE_BEGIN)
        step = 200_000
        for offset in range(0, len(data), step):
            piece = data[offset : offset + step]
            for _ in range(2):
                assert not (await talk.restore_file("d/big", piece, 0o444, offset)).failed
        gap = await talk.restore_file("d/big", b"x", 0o444, len(data) + 1)
        assert gap.failed
        assert "beyond" in gap.text
        entry = FileEntry("d/big", _sha(data), len(data), 0o444)
        done = await talk.call(protocol.RESTORE_DONE, files=1, digest=tree_digest([entry]))
        assert not done.failed
        assert await talk.fetch(resource_uri("d/big")) == data
        assert await talk.fetch(resource_uri("d/big", offset=5, limit=7)) == data[5:12]
        assert await talk.fetch(resource_uri("d/big", offset=699_999, limit=7)) == data[-1:]
    assert (folder.root / "d/big").stat().st_mode & 0o777 == 0o444


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_nothing_runs_on_a_half_restored_tree(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call(protocol.RESTORE_BEGIN)
        await talk.restore_file("a", b"x")
        for said in (
            await talk.call("list_files"),
            await talk.call("write_file", path="b", content="y"),
        ):
            assert said.failed
            assert said.not_sent
            assert "being restored" in said.text
        wrong = await talk.call(protocol.RESTORE_DONE, files=1, digest="0" * 64)
        assert "digest differs" in wrong.text
        few = await talk.call(protocol.RESTORE_DONE, files=2, digest="0" * 64)
        assert "restored 1 files, not 2" in few.text
        assert (await talk.call("list_files")).not_sent
        digest = tree_digest([FileEntry("a", _sha(b"x"), 1, 0o644)])
        assert not (await talk.call(protocol.RESTORE_DONE, files=1, digest=digest)).failed
        assert (await talk.call("read_file", path="a")).text == "x"


async def test_restored_and_new_files_never_mix(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call("write_file", path="new", content="n")
        for said in (
            await talk.call(protocol.RESTORE_BEGIN),
            await talk.restore_file("old", b"o"),
            await talk.call(protocol.RESTORE_DONE, files=0, digest=tree_digest([])),
        ):
            assert said.failed
            assert "already run" in said.text
        assert (await talk.call("list_files")).text.split() == ["1", "new"]


async def test_a_restore_starts_from_nothing_and_may_start_again(folder: Folder) -> None:
    folder.root.mkdir()
    (folder.root / "left").mkdir()
    (folder.root / "left" / "over").write_text("from an earlier container")
    async with folder.started() as talk:
        assert (await talk.restore_file("a", b"x")).text == "no restore has begun"
        for _ in range(2):
            await talk.call(protocol.RESTORE_BEGIN)
            await talk.restore_file("a", b"x")
        await talk.call(protocol.RESTORE_BEGIN)
        done = await talk.call(protocol.RESTORE_DONE, files=0, digest=tree_digest([]))
        assert not done.failed
        assert (await talk.state())["phase"] == "Restored"
    assert list(folder.root.iterdir()) == []


async def test_bad_pieces_are_refused(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call(protocol.RESTORE_BEGIN)
        bad = await talk.call(protocol.RESTORE_FILE, path="a", mode=420, contentBase64="%%%")
        assert bad.text == "contentBase64: not base64"
        await talk.restore_file("a", b"x")
        assert (await talk.restore_file("a/b", b"x")).failed
        assert (await talk.restore_file("../a", b"x")).failed


NOT_FILES = [
    "workspace:///absent",
    "workspace:///../beside",
    "workspace:///%2e%2e/beside",
    "workspace:////etc/passwd",
    "workspace:///%ff",
    "workspace:///a%00b",
    "workspace:///",
    "workspace://host/a",
    "file:///etc/passwd",
    "workspace:///a?offset=-1",
    "workspace:///a?other=1",
]


async def test_only_addresses_of_files_can_be_fetched(folder: Folder) -> None:
    (folder.path / "beside").write_text("outside")
    async with folder.stdio() as talk:
        await talk.call("write_file", path="a", content="x")
        for uri in NOT_FILES:
            with pytest.raises(MCPError):
                await talk.fetch(uri)
        assert await talk.fetch("workspace:///a") == b"x"


async def test_a_file_as_large_as_the_limit_can_be_fetched(folder: Folder) -> None:
    large = Folder(folder.path, limit=64 << 20)
    large.root.mkdir()
    data = os.urandom(1 << 20) * 64
    (large.root / "big").write_bytes(data)
    async with large.started() as talk:
        assert await talk.fetch(resource_uri("big")) == data
        said = await talk.call("write_file", path="more", content="x")
    assert "over the size limit" in said.text
