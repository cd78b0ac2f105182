"""The tools as a model sees them, and the changes as the runner sees them."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from agentrun.workspace import protocol
from agentrun.workspace.tools import LINE_LIMIT, LIST_LIMIT, MATCH_LIMIT, READ_LIMIT

from .servers import Folder, post


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_write_read_list_search_delete(folder: Folder, mode: str) -> None:
    with folder.process():
        async with folder.client(mode) as talk:
            written = await talk.call("write_file", path="src/a.py", content="one\ntwö\n")
            await talk.call("write_file", path="./b.txt", content="two")
            assert (await talk.call("read_file", path="src/a.py")).text == "one\ntwö\n"
            listed = (await talk.call("list_files")).text.split("\n")
            found = (await talk.call("search_files", pattern="^tw")).text
            deleted = await talk.call("delete_file", path="src/a.py")
            left = (await talk.call("list_files")).text
    assert written.text == "wrote 9 bytes to src/a.py, which now has 9"
    assert [row.split() for row in listed] == [["3", "b.txt"], ["9", "src/a.py"]]
    assert found == "b.txt:1: two\nsrc/a.py:2: twö"
    assert deleted.changed == [{"path": "src/a.py", "deleted": True}]
    assert left.split() == ["3", "b.txt"]
    assert not (folder.root / "src").exists()


async def test_every_result_says_what_changed(folder: Folder) -> None:
    async with folder.started() as talk:
        written = await talk.call("write_file", path="a", content="x\n")
        for tool in ("list_files", "agentrun_state"):
            assert (await talk.call(tool)).changed == []
        assert (await talk.call("read_file", path="absent")).changed == []
    digest = hashlib.sha256(b"x\n").hexdigest()
    assert written.changed == [{"path": "a", "sha256": digest, "size": 2, "mode": 0o644}]


async def test_append_and_overwrite_keep_permissions(folder: Folder) -> None:
    folder.root.mkdir()
    (folder.root / "run.sh").write_text("#!/bin/sh\n")
    (folder.root / "run.sh").chmod(0o4755)
    async with folder.started() as talk:
        more = await talk.call("write_file", path="run.sh", content="true\n", append=True)
        fresh = await talk.call("write_file", path="new", content="n", append=True)
        again = await talk.call("write_file", path="run.sh", content="")
    assert more.text == "wrote 5 bytes to run.sh, which now has 15"
    assert (more.changed[0]["mode"], more.changed[0]["size"]) == (0o755, 15)
    assert fresh.changed[0]["size"] == 1
    assert again.changed[0]["size"] == 0
    assert (folder.root / "run.sh").stat().st_mode & 0o7777 == 0o755


async def test_reading_by_lines(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call("write_file", path="f", content="1\n2\r\n3\n4")
        part = await talk.call("read_file", path="f", offset=2, limit=2)
        assert part.text == "2\r\n3\n"
        assert part.notes == ["[The file goes on: continue with offset 4.]"]
        rest = await talk.call("read_file", path="f", offset=4)
        assert (rest.text, rest.notes) == ("4", [])
        beyond = await talk.call("read_file", path="f", offset=9)
        assert (beyond.text, beyond.notes) == ("", ["[The file ends before line 9.]"])


async def test_long_reads_are_cut_and_say_so(folder: Folder) -> None:
    folder = replace(folder, limit=4 << 20)
    folder.root.mkdir()
    (folder.root / "lines").write_text("0123456789abcde\n" * 70_000)
    (folder.root / "line").write_text("x" * (READ_LIMIT + 5))
    async with folder.started() as talk:
        lines = await talk.call("read_file", path="lines")
        line = await talk.call("read_file", path="line")
    assert len(lines.text) == READ_LIMIT
    assert lines.notes == [f"[The file goes on: continue with offset {READ_LIMIT // 16 + 1}.]"]
    assert line.notes == ["[The file goes on: continue with offset 1. Line 1 is cut.]"]


async def test_binary_files_are_not_text(folder: Folder) -> None:
    folder.root.mkdir()
    (folder.root / "bin").write_bytes(b"\xff\xfe\x00\x01")
    async with folder.started() as talk:
        said = await talk.call("read_file", path="bin")
        assert await talk.fetch(protocol.resource_uri("bin")) == b"\xff\xfe\x00\x01"
        assert (await talk.call("search_files", pattern=".")).text == "no matches"
    assert said.failed
    assert said.text == "bin: binary, not UTF-8 text (4 bytes)"


async def test_nul_and_every_other_character_come_back_as_written(folder: Folder) -> None:
    content = "a\x00b\x1b\u2028\ufeff\U0001f600\r\n"
    async with folder.started() as talk:
        await talk.call("write_file", path="f", content=content)
        assert (await talk.call("read_file", path="f")).text == content


@pytest.mark.parametrize("where", ["content", "path", "lone\ud800"])
async def test_a_lone_surrogate_does_not_kill_the_server(folder: Folder, where: str) -> None:
    """The SDK's client cannot even send one, so this is raw HTTP. The last case is a name."""
    args = {"path": "f", "content": "x", where: f"a\ud800b\udfff{where}"}
    with folder.process():
        async with folder.http() as http, folder.client() as talk:
            answer = await post(http, "write_file", args)
            alive = await talk.call("read_file", path="f")
    if where == "content":
        said = answer["result"]["content"]
        assert said[1]["text"] == "[2 lone surrogates were replaced by U+FFFD]"
        assert alive.text == "a\ufffdb\ufffdcontent"
    elif where == "path":
        assert answer["result"]["isError"] is True
        assert "not valid text" in answer["result"]["content"][0]["text"]
    else:
        assert answer["result"]["content"][0]["text"] == "unknown argument 'lone\ufffd'"


async def test_a_search_tells_file_and_line(folder: Folder) -> None:
    files = {"a/x.py": "def f():\n    pass\n", "a/y.txt": "def\n", "z.py": "pass" * 300}
    async with folder.started() as talk:
        for path, content in files.items():
            await talk.call("write_file", path=path, content=content)
        search = "search_files"
        assert (await talk.call(search, pattern="def", glob="*.py")).text == "a/x.py:1: def f():"
        assert (await talk.call(search, pattern="def", glob="a/*.txt")).text == "a/y.txt:1: def"
        assert (await talk.call(search, pattern="pass", path="a")).text == "a/x.py:2:     pass"
        assert (await talk.call(search, pattern="def", path="a/y.txt")).text == "a/y.txt:1: def"
        assert (await talk.call(search, pattern="nothing")).text == "no matches"
        assert (await talk.call(search, pattern="^$")).text == "no matches"
        long = (await talk.call(search, pattern="pass$", path="z.py")).text
        assert len(long) < LINE_LIMIT + 20
        for bad in ("(", "x{1,99999999999}", "(" * 5000):
            assert (await talk.call(search, pattern=bad)).failed
        await talk.call("write_file", path="many", content="m\n" * (MATCH_LIMIT + 1))
        many = await talk.call(search, pattern="m", path="many")
        assert len(many.text.split("\n")) == MATCH_LIMIT
        assert many.notes == [f"[only the first {MATCH_LIMIT} matches]"]


async def test_a_regular_expression_that_never_ends_is_given_up(folder: Folder) -> None:
    async with folder.started() as talk:
        await talk.call("write_file", path="f", content="a" * 60 + "b")
        began = time.monotonic()
        said = await talk.call("search_files", pattern="(a+)+$")
        assert said.failed
        assert said.text == "gave up after 5 s"
        assert time.monotonic() - began < 20
        assert (await talk.call("read_file", path="f")).text.startswith("aaa")


async def test_listing_is_bounded_and_ordered(folder: Folder) -> None:
    folder.root.mkdir()
    for number in range(LIST_LIMIT + 3):
        (folder.root / f"{number:05d}").touch()
    (folder.root / "00000-").touch()
    (folder.root / "bad\nname").touch()
    async with folder.started() as talk:
        said = await talk.call("list_files")
        one = await talk.call("list_files", path="00007")
        none = await talk.call("list_files", path="absent")
    rows = [row.split()[1] for row in said.text.split("\n")]
    assert rows[:3] == ["00000", "00000-", "00001"]
    assert len(rows) == LIST_LIMIT
    assert said.notes == ["[4 more files are not shown]"]
    assert one.text.split() == ["0", "00007"]
    assert none.text == "absent: no such file or folder"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {}, "path: is required"),
    ("read_file", {"path": 3}, "path: must be of type string"),
    ("read_file", {"path": "a", "offset": 0}, "offset: must be at least 1"),
    ("read_file", {"path": "a", "limit": True}, "limit: must be of type integer"),
    ("read_file", {"path": "a", "lines": 1}, "unknown argument 'lines'"),
    ("read_file", {"path": ""}, "the path of a file is needed"),
    ("write_file", {"path": "a"}, "content: is required"),
    ("write_file", {"path": "a", "content": "x", "append": "yes"}, "append: must be of type"),
    ("read_file", {"path": "absent"}, "absent: no such file or folder"),
    ("delete_file", {"path": "no/such"}, "no: no such file or folder"),
]


async def test_wrong_arguments_are_error_results(folder: Folder) -> None:
    async with folder.stdio() as talk:
        for tool, args, said in WRONG:
            result = await talk.call(tool, **args)
            assert result.failed, args
            assert result.text.startswith(said)


async def test_tools_are_described_with_annotations(folder: Folder) -> None:
    async with folder.started() as talk:
        tools = {tool.name: tool for tool in (await talk.client.list_tools()).tools}
        with pytest.raises(MCPError, match="Unknown tool: shell"):
            await talk.call("shell")
    hints = {
        name: (a.read_only_hint, a.destructive_hint, a.idempotent_hint)
        for name, tool in tools.items()
        if (a := tool.annotations) is not None
    }
    assert hints["read_file"] == hints["list_files"] == hints["search_files"] == (True, False, True)
    assert hints["write_file"] == hints["delete_file"] == (False, True, True)
    internal = {name for name in tools if name.startswith(protocol.INTERNAL_PREFIX)}
    assert internal == {
        protocol.STATE,
        protocol.RESTORE_BEGIN,
        protocol.RESTORE_FILE,
        protocol.RESTORE_DONE,
    }
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools.values())
