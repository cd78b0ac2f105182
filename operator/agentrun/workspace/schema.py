"""The tools as they are described to a client, and the check of arguments against that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentrun.run.surrogates import mend_text
from agentrun.workspace import protocol
from agentrun.workspace.outcome import Refused

_TYPES: Final = {"string": str, "integer": int, "boolean": bool}


@dataclass(frozen=True)
class Param:
    """One argument. ``least`` is the smallest number allowed."""

    type: str
    text: str = ""
    required: bool = False
    least: int | None = None

    def schema(self) -> dict[str, Any]:
        bound = {} if self.least is None else {"minimum": self.least}
        described = {"description": self.text} if self.text else {}
        return {"type": self.type, **bound, **described}


@dataclass(frozen=True)
class ToolSpec:
    """A tool: its parameters and its annotations (read-only, destructive, idempotent)."""

    text: str
    params: Mapping[str, Param]
    hints: tuple[bool, bool, bool]

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {name: param.schema() for name, param in self.params.items()},
            "required": [name for name, param in self.params.items() if param.required],
            "additionalProperties": False,
        }


def check(spec: ToolSpec, args: Mapping[str, Any]) -> None:
    """Raise ``Refused`` unless ``args`` fit the schema that clients are shown."""
    for name, value in args.items():
        param = spec.params.get(name)
        if param is None:
            raise Refused(f"unknown argument {mend_text(name)[0]!r}")
        wrong = not isinstance(value, _TYPES[param.type])
        if wrong or (isinstance(value, bool) and param.type != "boolean"):
            raise Refused(f"{name}: must be of type {param.type}")
        if param.least is not None and value < param.least:
            raise Refused(f"{name}: must be at least {param.least}")
    for name, param in spec.params.items():
        if param.required and name not in args:
            raise Refused(f"{name}: is required")


_PATH = Param("string", "Path relative to the workspace.", required=True)
_FOLDER = Param("string", "Folder or file, relative to the workspace; everything if absent.")
_READ = (True, False, True)
_WRITE = (False, True, True)
"""Idempotent even for an append: the call key makes a repetition the same call, and a new process
starts from the recorded files."""

SPECS: Final[Mapping[str, ToolSpec]] = {
    "read_file": ToolSpec(
        "Read a text file. Returns at most 1 MiB; a note says how to continue.",
        {
            "path": _PATH,
            "offset": Param("integer", "First line to return, counted from 1.", least=1),
            "limit": Param("integer", "Number of lines; all if absent.", least=1),
        },
        _READ,
    ),
    "write_file": ToolSpec(
        "Write a text file, replacing what was there, or append to it. Folders are made as needed.",
        {
            "path": _PATH,
            "content": Param("string", "The text.", required=True),
            "append": Param("boolean", "Add to the end instead of replacing."),
        },
        _WRITE,
    ),
    "list_files": ToolSpec(
        "List files with their sizes in bytes, all folders below included.",
        {"path": _FOLDER},
        _READ,
    ),
    "search_files": ToolSpec(
        "Find lines that match a regular expression. Answers with path:line: text.",
        {
            "pattern": Param("string", "Regular expression, matched within a line.", required=True),
            "path": _FOLDER,
            "glob": Param("string", "Only files whose name (with a slash: path) fits, as *.py."),
        },
        _READ,
    ),
    "delete_file": ToolSpec("Delete a file.", {"path": _PATH}, _WRITE),
    protocol.STATE: ToolSpec("For the runner: what this server holds.", {}, _READ),
    protocol.RESTORE_BEGIN: ToolSpec("For the runner: empty the workspace.", {}, _WRITE),
    protocol.RESTORE_FILE: ToolSpec(
        "For the runner: put back a piece of a file.",
        {
            "path": Param("string", required=True),
            "mode": Param("integer", required=True, least=0),
            "contentBase64": Param("string", required=True),
            "offset": Param("integer", least=0),
        },
        _WRITE,
    ),
    protocol.RESTORE_DONE: ToolSpec(
        "For the runner: check that the restored tree is the recorded one.",
        {
            "files": Param("integer", required=True, least=0),
            "digest": Param("string", required=True),
        },
        _WRITE,
    ),
}
