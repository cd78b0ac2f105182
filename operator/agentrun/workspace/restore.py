"""Putting the recorded files back before the first call of a new attempt."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentrun.workspace.outcome import Outcome, Refused
from agentrun.workspace.paths import Parts, parse_file
from agentrun.workspace.protocol import tree_digest
from agentrun.workspace.tree import Tree


@dataclass
class Restore:
    """One restore from ``begin`` to a ``done`` whose digest is right.

    Pieces may be repeated, since an answer can get lost; the permissions are set at the end, so
    that a read-only file can be written in pieces.
    """

    tree: Tree
    modes: dict[Parts, int] = field(default_factory=dict)

    def begin(self) -> Outcome:
        self.tree.wipe()
        return Outcome("the workspace is empty")

    def file(self, args: Mapping[str, Any]) -> Outcome:
        parts = parse_file(args["path"])
        try:
            data = base64.b64decode(args["contentBase64"], validate=True)
        except (binascii.Error, ValueError):
            raise Refused("contentBase64: not base64") from None
        self.tree.patch(parts, args.get("offset", 0), data)
        self.modes[parts] = args["mode"]
        return Outcome(f"{len(data)} bytes")

    def done(self, args: Mapping[str, Any]) -> Outcome:
        """Raises ``Refused``, and the restore stays open, if this is not the recorded tree."""
        for parts, mode in self.modes.items():
            self.tree.chmod(parts, mode)
        entries = self.tree.entries()
        if len(entries) != args["files"]:
            raise Refused(f"restored {len(entries)} files, not {args['files']}")
        if tree_digest(entries) != args["digest"]:
            raise Refused("the restored files are not the recorded ones: their digest differs")
        return Outcome(f"restored {len(entries)} files")
