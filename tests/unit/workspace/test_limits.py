"""The size limit: what would exceed it is an error, and its changes are undone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentrun.workspace import usage
from agentrun.workspace.outcome import Refused
from agentrun.workspace.paths import parse_file
from agentrun.workspace.tree import Tree

from .servers import Folder


async def test_a_call_over_the_limit_is_an_error_and_changes_nothing(folder: Folder) -> None:
    small = replace(folder, limit=1000)
    async with small.started() as talk:
        await talk.call("write_file", path="a", content="x" * 600)
        before = await talk.state()
        for call in (
            {"path": "new/deep/b", "content": "y" * 401},
            {"path": "a", "content": "y" * 401, "append": True},
            {"path": "a", "content": "y" * 1001},
        ):
            said = await talk.call("write_file", **call)
            assert said.failed
            assert "over the size limit: 600 of 1000 bytes" in said.text
            assert said.changed == []
        assert await talk.state() == before
        assert not (folder.root / "new").exists()
        assert not (await talk.call("write_file", path="b", content="y" * 400)).failed
        assert not (await talk.call("write_file", path="a", content="y" * 599)).failed
        assert not (await talk.call("delete_file", path="b")).failed
        assert not (await talk.call("write_file", path="c", content="y" * 401)).failed


async def test_a_restore_keeps_to_the_limit_too(folder: Folder) -> None:
    small = replace(folder, limit=1000)
    async with small.started() as talk:
        await talk.call("agentrun_restore_begin")
        assert not (await talk.restore_file("a", b"x" * 900)).failed
        assert (await talk.restore_file("a", b"x" * 200, offset=900)).failed
        assert not (await talk.restore_file("a", b"x" * 100, offset=900)).failed


def test_what_others_removed_is_counted_anew_before_a_refusal(tmp_path: Path) -> None:
    tree = Tree(tmp_path, 100)
    tree.write(parse_file("a"), b"x" * 90)
    (tmp_path / "a").unlink()
    tree.write(parse_file("b"), b"x" * 90)
    with pytest.raises(Refused):
        tree.write(parse_file("c"), b"x" * 90)


def test_what_was_there_before_counts(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"x" * 90)
    with pytest.raises(Refused):
        Tree(tmp_path, 100).write(parse_file("a"), b"x" * 11)


def test_the_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty files use no bytes, but each is an entry of the record."""
    monkeypatch.setattr(usage, "MAX_FILES", 3)
    tree = Tree(tmp_path, 100)
    for name in "abc":
        tree.write(parse_file(name), b"")
    with pytest.raises(Refused, match="limit of 3 files"):
        tree.write(parse_file("d/e"), b"")
    tree.write(parse_file("a"), b"again")
    assert not (tmp_path / "d").exists()


def test_a_write_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path, 100)
    tree.write(parse_file("a"), b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", full)
        for path in ("a", "new/b"):
            with pytest.raises((OSError, Refused), match="No space left"):
                tree.write(parse_file(path), b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / ".agentrun").iterdir()) == []


def test_drafts_of_a_killed_server_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".agentrun").mkdir()
    (tmp_path / ".agentrun" / "draft").write_text("half")
    tree = Tree(tmp_path, 100)
    assert list(tmp_path.iterdir()) == []
    assert tree.entries() == []
