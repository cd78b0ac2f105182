"""Which call may run now, and what is remembered of it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from typing import Any, Literal

from agentrun.workspace import protocol
from agentrun.workspace.memory import Memory, fingerprint
from agentrun.workspace.outcome import Outcome, Refused, failed
from agentrun.workspace.restore import Restore
from agentrun.workspace.schema import SPECS, check
from agentrun.workspace.tools import TOOLS
from agentrun.workspace.tree import Tree

Phase = Literal["Fresh", "Restoring", "Restored", "Used"]


class Workspace:
    """One process's workspace. Calls are synchronous, so they run one at a time and to their end.

    ``Fresh`` → ``Restoring`` → ``Restored`` → ``Used``, or ``Fresh`` → ``Used``: once a normal call
    has run nothing is restored any more, and while a restore is open nothing runs, so recorded
    files and new ones never mix. ``generation`` differs in every process: a runner that sees
    another one knows that the server forgot what it remembered.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.generation = secrets.token_hex(8)
        self.phase: Phase = "Fresh"
        self._memory = Memory()
        self._restore: Restore | None = None

    def call(
        self, tool: str, args: Mapping[str, Any], meta: Mapping[str, Any], *, now: float
    ) -> Outcome:
        """Run a tool that exists. Every failure that a client can cause is an outcome."""
        try:
            check(SPECS[tool], args)
            if tool.startswith(protocol.INTERNAL_PREFIX):
                return self._internal(tool, args)
            return self._once(tool, args, meta, now)
        except Refused as refused:
            return failed(str(refused))
        except OSError as error:
            return failed(error.strerror or "I/O error")

    def _once(
        self, tool: str, args: Mapping[str, Any], meta: Mapping[str, Any], now: float
    ) -> Outcome:
        """Remembered calls are answered even when late: saying "not sent" would be a lie."""
        key = meta.get(protocol.META_CALL_KEY)
        call = fingerprint(tool, args)
        if isinstance(key, str) and (known := self._memory.recall(key)) is not None:
            if known[0] != call:
                return failed("this call key was used for another call", not_sent=True)
            return known[1]
        problem = self._turned_away(meta, now)
        if problem:
            return failed(f"{problem}; nothing was done", not_sent=True)
        self.phase = "Used"
        outcome = self._run(tool, args)
        if isinstance(key, str):
            self._memory.keep(key, call, outcome, reads=SPECS[tool].hints[0])
        return outcome

    def _turned_away(self, meta: Mapping[str, Any], now: float) -> str:
        if self.phase == "Restoring":
            return "the workspace is being restored"
        limit = meta.get(protocol.META_NOT_AFTER)
        if limit is None:
            return ""
        if isinstance(limit, bool) or not isinstance(limit, int | float) or math.isnan(limit):
            return f"{protocol.META_NOT_AFTER} is not a number"
        return "the call arrived after its deadline" if now > limit else ""

    def _run(self, tool: str, args: Mapping[str, Any]) -> Outcome:
        try:
            return TOOLS[tool](self.tree, args)
        except Refused as refused:
            return failed(str(refused))
        except OSError as error:
            return failed(error.strerror or "I/O error")

    def _internal(self, tool: str, args: Mapping[str, Any]) -> Outcome:
        if tool == protocol.STATE:
            return self._state()
        if self.phase == "Used":
            raise Refused("a call has already run here: nothing can be restored any more")
        if tool == protocol.RESTORE_BEGIN:
            self.phase, self._restore = "Restoring", Restore(self.tree)
            return self._restore.begin()
        if self.phase != "Restoring" or self._restore is None:
            raise Refused("no restore has begun")
        if tool == protocol.RESTORE_FILE:
            return self._restore.file(args)
        outcome = self._restore.done(args)
        self.phase = "Restored"
        return outcome

    def _state(self) -> Outcome:
        entries = self.tree.entries()
        state = {
            "generation": self.generation,
            "fileCount": len(entries),
            "digest": protocol.tree_digest(entries),
            "totalBytes": sum(entry.size for entry in entries),
            "phase": self.phase,
        }
        return Outcome(f"files: {len(entries)}", structured=state)
