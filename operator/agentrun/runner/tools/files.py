"""The files of a recorded workspace: put back before the first call, taken out after each.

This knows what the workspace should hold: what it was told to restore, and every change since.
So a server that lost its state within the attempt is restored again, before anything runs on an
empty folder.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentrun.errors import CheckpointCorrupt
from agentrun.run.records import FileChange, Json
from agentrun.runner.tools.port import Fetch, Files
from agentrun.runner.tools.verdict import Unreachable
from agentrun.workspace import protocol

PIECE = 4 << 20
BATCH = 32 << 20
"""Bytes of contents fetched, and kept, at a time."""


class Speak(Protocol):
    """What is needed of the server. Both raise Unreachable unless it answered well."""

    async def ask(self, tool: str, arguments: dict[str, Json]) -> dict[str, Json]:
        """An internal tool's structured result."""
        ...

    async def read(self, uri: str) -> bytes:
        """A resource's content."""
        ...


class NotCaptured(Exception):
    """A call changed files whose contents could not be had; its outcome counts as unknown."""


@dataclass(slots=True)
class Recorded:
    """One workspace. ``mark`` tells its processes apart cheaply, ``generation`` surely."""

    speak: Speak
    files: dict[str, tuple[str, int, int]] | None = None
    """None until the loop said what there should be."""
    fetch: Fetch | None = None
    mark: object = None
    generation: str | None = None
    recent: dict[str, bytes] = field(default_factory=dict)
    """Contents of the latest changes: they may not be in the store yet."""

    async def restore(self, files: Files, fetch: Fetch, mark: object) -> None:
        """Make the workspace hold exactly these. Raises Unreachable."""
        self.files, self.fetch = dict(files), fetch
        await self._bring_back(mark)

    async def ready(self, mark: object) -> None:
        """Before a call: bring the files back if the server is another process than before."""
        if self.files is not None and mark != self.mark:
            await self._bring_back(mark)

    async def captured(
        self, meta: Mapping[str, Json]
    ) -> tuple[tuple[FileChange, ...], dict[str, bytes]]:
        """What a call changed, with contents. Raises NotCaptured."""
        generation = meta.get(protocol.META_GENERATION)
        if self.generation is not None and generation != self.generation:
            self.mark = None
            raise NotCaptured("the workspace was restarted under the call")
        try:
            changes = tuple(_change(item) for item in meta.get(protocol.META_CHANGED) or ())
            blobs = {
                change.sha256: await self._content(change)
                for change in changes
                if change.sha256 is not None
            }
        except Unreachable as error:
            raise NotCaptured(f"a changed file could not be read: {error.why}") from None
        except (KeyError, TypeError, ValueError):
            raise NotCaptured("the changes cannot be understood") from None
        self._remember(changes, blobs)
        return changes, blobs

    def _remember(self, changes: Sequence[FileChange], blobs: Mapping[str, bytes]) -> None:
        files = self.files if self.files is not None else {}
        for change in changes:
            if change.sha256 is None:
                files.pop(change.path, None)
            else:
                files[change.path] = (change.sha256, change.size, change.mode)
        self.recent.update(blobs)
        while sum(map(len, self.recent.values())) > BATCH and len(self.recent) > len(blobs):
            del self.recent[next(iter(self.recent))]

    async def _content(self, change: FileChange) -> bytes:
        data = bytearray()
        while len(data) < change.size:
            uri = protocol.resource_uri(change.path, offset=len(data), limit=PIECE)
            piece = await self.speak.read(uri)
            if not piece:
                break
            data += piece
        if hashlib.sha256(data).hexdigest() != change.sha256:
            raise NotCaptured("a changed file is not what the call left")
        return bytes(data)

    async def _bring_back(self, mark: object) -> None:
        files = self.files or {}
        digest = protocol.tree_digest(
            protocol.FileEntry(path, *entry) for path, entry in files.items()
        )
        state = await self.speak.ask(protocol.STATE, {})
        if state.get("digest") != digest:
            if state.get("phase") == "Used":
                raise Unreachable("the workspace was used before it was restored", again=False)
            await self.speak.ask(protocol.RESTORE_BEGIN, {})
            for batch in _batches(files):
                await self._send(batch)
            done = {"files": len(files), "digest": digest}
            await self.speak.ask(protocol.RESTORE_DONE, done)
        self.generation = str(state.get("generation"))
        self.mark = mark

    async def _send(self, batch: Files) -> None:
        contents = await self._contents({entry[0] for entry in batch.values()})
        for path, (sha256, _, mode) in batch.items():
            data = contents[sha256]
            for offset in range(0, max(len(data), 1), PIECE):
                piece = base64.b64encode(data[offset : offset + PIECE]).decode()
                arguments = {"path": path, "mode": mode, "contentBase64": piece, "offset": offset}
                await self.speak.ask(protocol.RESTORE_FILE, arguments)

    async def _contents(self, wanted: set[str]) -> dict[str, bytes]:
        known = {sha256: self.recent[sha256] for sha256 in wanted if sha256 in self.recent}
        missing = sorted(wanted - known.keys())
        if missing and self.fetch is not None:
            known |= await self.fetch(missing)
        if wanted - known.keys():
            raise CheckpointCorrupt(
                f"the store has no content for {len(wanted - known.keys())} recorded files",
                attempted="restore the workspace",
            )
        return known


def _batches(files: Files) -> Iterator[dict[str, tuple[str, int, int]]]:
    """The files in groups that fit into memory."""
    batch: dict[str, tuple[str, int, int]] = {}
    size = 0
    for path, entry in files.items():
        if batch and size + entry[1] > BATCH:
            yield batch
            batch, size = {}, 0
        batch[path] = entry
        size += entry[1]
    if batch:
        yield batch


def _change(item: Mapping[str, Json]) -> FileChange:
    if item.get("deleted") is True:
        return FileChange(path=item["path"], sha256=None)
    return FileChange(
        path=item["path"], sha256=item["sha256"], size=item["size"], mode=item["mode"]
    )
