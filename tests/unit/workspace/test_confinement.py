"""Nothing outside the folder can be read, written, listed or deleted, whatever is tried."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agentrun.workspace.outcome import Refused
from agentrun.workspace.paths import parse_file
from agentrun.workspace.tree import Tree

from .servers import Folder

SECRET = "outside"


@pytest.fixture
def outside(folder: Folder) -> Path:
    """A file beside the root that no call may touch, and links to it inside."""
    beside = folder.path / "beside"
    beside.mkdir()
    (beside / "secret").write_text(SECRET)
    folder.root.mkdir()
    (folder.root / "plain").write_text("inside")
    (folder.root / "link").symlink_to(beside / "secret")
    (folder.root / "dirlink").symlink_to(beside)
    (folder.root / "dangling").symlink_to(beside / "absent")
    os.mkfifo(folder.root / "fifo")
    return beside


PATHS = [
    "../beside/secret",
    "a/../../beside/secret",
    "..",
    "/etc/passwd",
    "//etc/passwd",
    "link",
    "dirlink/secret",
    "./dirlink/../dirlink/secret",
    "dangling",
    "plain/x",
    "fifo",
    ".agentrun/x",
    "./.agentrun",
    "a\x00b",
    "a\nb",
    "n" * 256,
    "/".join(["d"] * 33),
    "a/" * 600 + "b",
]


async def test_no_path_leads_outside_or_to_anything_but_a_file(
    folder: Folder, outside: Path
) -> None:
    before = _snapshot(folder.path)
    async with folder.stdio() as talk:
        for path in PATHS:
            changing = [
                await talk.call("read_file", path=path),
                await talk.call("write_file", path=path, content="w"),
                await talk.call("write_file", path=path, content="w", append=True),
                await talk.call("delete_file", path=path),
            ]
            assert all(answer.failed for answer in changing), path
            listed = await talk.call("list_files", path=path)
            found = await talk.call("search_files", pattern=SECRET, path=path)
            for answer in (*changing, listed, found):
                assert answer.failed or answer.text.startswith("no "), path
                assert SECRET not in answer.text
                assert str(folder.path) not in answer.text
                assert answer.changed == []
    assert _snapshot(folder.path) == before
    assert (outside / "secret").read_text() == SECRET


async def test_a_restore_leads_nowhere_else_either(folder: Folder, outside: Path) -> None:
    async with folder.stdio() as talk:
        await talk.call("agentrun_restore_begin")
        os.mkfifo(folder.root / "fifo")
        (folder.root / "link").symlink_to(outside / "secret")
        (folder.root / "dirlink").symlink_to(outside)
        await talk.restore_file("plain", b"x")
        for path in PATHS:
            assert (await talk.restore_file(path, b"w")).failed or path == "dangling", path
    assert set(_snapshot(outside)) == {"secret"}
    assert (outside / "secret").read_text() == SECRET


def _snapshot(path: Path) -> dict[str, Any]:
    return {
        str(found.relative_to(path)): found.read_bytes() if found.is_file() else None
        for found in path.rglob("*")
        if not found.is_symlink()
    }


async def test_listing_and_searching_do_not_follow_links(folder: Folder, outside: Path) -> None:
    async with folder.stdio() as talk:
        assert (await talk.call("list_files")).text.split() == ["6", "plain"]
        assert (await talk.call("search_files", pattern="side")).text == "plain:1: inside"
        state = await talk.state()
    assert state["fileCount"] == 1


async def test_a_root_that_is_wiped_for_a_restore_leaves_link_targets_alone(
    folder: Folder, outside: Path
) -> None:
    async with folder.stdio() as talk:
        assert not (await talk.call("agentrun_restore_begin")).failed
    assert list(folder.root.iterdir()) == []
    assert (outside / "secret").read_text() == SECRET


@contextmanager
def _swapping(spot: Path, target: Path, away: Path) -> Iterator[None]:
    """``spot`` is by turns a real folder and a link to ``target``, as fast as possible."""
    stop = threading.Event()

    def swap() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            made = away / f"{number}"
            made.mkdir()
            (made / "secret").write_text("inside")
            with suppress(OSError):
                made.rename(spot)
            with suppress(OSError):
                spot.rename(away / f"{number}-old")
            with suppress(OSError):
                (away / f"{number}-link").symlink_to(target)
                (away / f"{number}-link").rename(spot)
            with suppress(OSError):
                spot.unlink()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_folder_swapped_for_a_link_during_a_call_does_not_lead_outside(tmp_path: Path) -> None:
    root, beside, away = tmp_path / "root", tmp_path / "beside", tmp_path / "away"
    for made in (root, beside, away):
        made.mkdir()
    (beside / "secret").write_text(SECRET)
    tree = Tree(root, 1 << 20)
    refused = 0
    with _swapping(root / "spot", beside, away):
        for number in range(1500):
            with suppress(Refused, OSError):
                tree.write(parse_file(f"spot/new{number % 7}"), b"w")
            with suppress(Refused, OSError):
                tree.patch(parse_file("spot/secret"), 0, b"inside")
            with suppress(Refused, OSError):
                tree.delete(parse_file("spot/secret" if number % 3 else "spot/new3"))
            with suppress(OSError, Refused):
                assert all(found.status.st_size != len(SECRET) for found in tree.walk())
            try:
                assert tree.read(parse_file("spot/secret")) in {b"inside", b""}
            except (Refused, OSError):
                refused += 1
    assert [path.name for path in beside.iterdir()] == ["secret"]
    assert (beside / "secret").read_text() == SECRET
    assert refused > 0


@pytest.mark.parametrize("becomes", ["link", "pipe"])
@pytest.mark.parametrize("call", ["read", "walk", "write", "patch", "chmod", "delete"])
def test_what_is_swapped_between_check_and_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, becomes: str, call: str
) -> None:
    """The same race, at its worst moment: after the look, just before each open of the file.

    Nothing blocks on the pipe, and the target of the link is neither seen nor touched.
    """
    root, secret = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    secret.write_text(SECRET)
    spot = root / "spot"
    spot.write_text("inside")
    tree = Tree(root, 1 << 20)
    real_open = os.open

    def swapped(path: Any, *args: Any, **kwargs: Any) -> int:
        if path == "spot":
            spot.unlink()
            spot.symlink_to(secret) if becomes == "link" else os.mkfifo(spot)
        return real_open(path, *args, **kwargs)

    parts = parse_file("spot")
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: tree.read(parts),
        "walk": tree.entries,
        "write": lambda: tree.write(parts, b"new"),
        "patch": lambda: tree.patch(parts, 0, b"new"),
        "chmod": lambda: tree.chmod(parts, 0o777),
        "delete": lambda: tree.delete(parts),
    }
    before = secret.stat().st_mode
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", swapped)
        if call in {"write", "delete"}:
            calls[call]()
        else:
            with pytest.raises((Refused, OSError)):
                calls[call]()
    assert secret.read_text() == SECRET
    assert secret.stat().st_mode == before
