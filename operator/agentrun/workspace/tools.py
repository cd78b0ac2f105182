"""What the tools do. Each takes the tree and checked arguments and returns an ``Outcome``."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from agentrun.run.surrogates import mend_text
from agentrun.workspace.beneath import require_regular
from agentrun.workspace.deadline import deadline
from agentrun.workspace.outcome import Outcome, Refused
from agentrun.workspace.paths import join, parse, parse_file, show
from agentrun.workspace.protocol import Deleted
from agentrun.workspace.tree import Found, Tree

Args = Mapping[str, Any]

READ_LIMIT: Final = 1 << 20
LIST_LIMIT: Final = 1000
MATCH_LIMIT: Final = 200
LINE_LIMIT: Final = 400
SEARCH_SECONDS: Final = 5.0


def read_file(tree: Tree, args: Args) -> Outcome:
    parts = parse_file(args["path"])
    data = tree.read(parts)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Refused(f"{show(join(parts))}: binary, not UTF-8 text ({len(data)} bytes)") from None
    first, count = args.get("offset", 1), args.get("limit")
    start = _line_start(text, first - 1)
    end = len(text) if count is None else _line_start(text, count, start)
    shown = text[start : min(end, start + READ_LIMIT)]
    notes = []
    if first > 1 and start == len(text):
        notes.append(f"[The file ends before line {first}.]")
    if start + len(shown) < len(text):
        following = first + shown.count("\n")
        cut = "" if shown.endswith("\n") else f" Line {following} is cut."
        notes.append(f"[The file goes on: continue with offset {following}.{cut}]")
    return Outcome(shown, tuple(notes))


def _line_start(text: str, lines: int, at: int = 0) -> int:
    """Where the line begins that is ``lines`` lines after the one beginning at ``at``."""
    for _ in range(lines):
        at = text.find("\n", at) + 1
        if at == 0:
            return len(text)
    return at


def write_file(tree: Tree, args: Args) -> Outcome:
    parts = parse_file(args["path"])
    content, replaced = mend_text(args["content"])
    data = content.encode()
    added = len(data)
    if args.get("append", False) and tree.status(parts) is not None:
        data = tree.read(parts) + data
    entry = tree.write(parts, data)
    text = f"wrote {added} bytes to {entry.path}, which now has {entry.size}"
    notes = (f"[{replaced} lone surrogates were replaced by U+FFFD]",) if replaced else ()
    return Outcome(text, notes, changed=(entry,))


def list_files(tree: Tree, args: Args) -> Outcome:
    found = _below(tree, args)
    rows = [f"{file.status.st_size:>10}  {file.path}" for file in found[:LIST_LIMIT]]
    text = "\n".join(rows) if rows else "no files"
    more = len(found) - len(rows)
    return Outcome(text, (f"[{more} more files are not shown]",) if more else ())


def search_files(tree: Tree, args: Args) -> Outcome:
    with deadline(SEARCH_SECONDS):
        try:
            pattern = re.compile(args["pattern"])
        except (re.error, OverflowError, RecursionError) as error:
            raise Refused(f"pattern: not a regular expression: {error}") from None
        glob = args.get("glob")
        files = [file for file in _below(tree, args) if glob is None or _fits(file, glob)]
        rows: list[str] = []
        for row in _matches(tree, files, pattern):
            if len(rows) == MATCH_LIMIT:
                return Outcome("\n".join(rows), (f"[only the first {MATCH_LIMIT} matches]",))
            rows.append(row)
    return Outcome("\n".join(rows) if rows else "no matches")


def delete_file(tree: Tree, args: Args) -> Outcome:
    parts = parse_file(args["path"])
    tree.delete(parts)
    return Outcome(f"deleted {join(parts)}", changed=(Deleted(join(parts)),))


def _below(tree: Tree, args: Args) -> list[Found]:
    """The files of a folder, or the one file that the path names."""
    parts = parse(args.get("path", ""))
    status = tree.status(parts) if parts else None
    if parts and status is None:
        raise Refused(f"{show(join(parts))}: no such file or folder")
    if status is not None and not stat.S_ISDIR(status.st_mode):
        require_regular(status, parts)
        return [Found(parts, status)]
    return tree.walk(parts)


def _fits(file: Found, glob: str) -> bool:
    """A glob with a slash is for the whole path, one without for the name."""
    return fnmatchcase(file.path if "/" in glob else file.parts[-1], glob)


def _matches(tree: Tree, files: list[Found], pattern: re.Pattern[str]) -> Iterator[str]:
    for file in files:
        try:
            text = tree.read(file.parts).decode()
        except (UnicodeDecodeError, Refused):
            continue
        for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
            if pattern.search(line):
                shown = line if len(line) <= LINE_LIMIT else line[:LINE_LIMIT] + "…"
                yield f"{file.path}:{number}: {shown}"


TOOLS: Final[Mapping[str, Callable[[Tree, Args], Outcome]]] = {
    "read_file": read_file,
    "write_file": write_file,
    "list_files": list_files,
    "search_files": search_files,
    "delete_file": delete_file,
}
