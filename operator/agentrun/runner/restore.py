"""From the store to a state: latest snapshot, the commits after it, folded and checked.

Three queries at most: the record, and once the blobs that it names. Nothing is executed unless every
check passes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrun.errors import CheckpointCorrupt, CheckpointError
from agentrun.run import codec, totals
from agentrun.run.fold import check, fold
from agentrun.run.state import State, Totals
from agentrun.runner.gc_pause import gc_paused
from agentrun.runner.snapshots import Growth
from agentrun.store.port import Claim, Restored, RunnerStore
from agentrun.store.rows import CommitRow

Offload = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function beside the event loop."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """What an attempt goes on from."""

    state: State
    growth: Growth
    known_blobs: set[str]
    commits: int
    snapshot_seq: int


class Untrusted(Exception):
    """The record fails a check although the chain of its bytes is whole.

    ``cause`` is the CheckpointError; ``sums`` are the run's totals as far as its commits decode, so
    that writing the outcome does not lose what was paid.
    """

    def __init__(self, cause: CheckpointError, sums: Totals) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.sums = sums


@dataclass(frozen=True, slots=True)
class Opened:
    """What was fetched, decompressed once, and the blobs that it names, each once."""

    snapshot: bytes
    commits: tuple[bytes, ...]
    names: tuple[str, ...]


async def restore(store: RunnerStore, claim: Claim, offload: Offload) -> Resumed:
    """The state of the claimed run. CheckpointError from the store's own checks, Untrusted after."""
    restored = await store.restore()
    found: Opened = await offload(lambda: opened(restored))
    contents = await store.blobs(found.names) if found.names else {}
    resumed: Resumed = await offload(lambda: folded(claim, restored, found, contents))
    return resumed


def opened(restored: Restored) -> Opened:
    """Pure, so that it can run beside the event loop, as the fold can."""
    snapshot = b""
    if restored.snapshot is not None:
        snapshot = codec.inflate(restored.snapshot.codec, restored.snapshot.body)
    commits = tuple(codec.inflate(commit.codec, commit.body) for commit in restored.commits)
    names: dict[str, None] = {}
    for text in (snapshot, *commits):
        names.update(dict.fromkeys(codec.blob_refs(codec.RAW, text)))
    return Opened(snapshot, commits, tuple(names))


def folded(
    claim: Claim, restored: Restored, found: Opened, contents: Mapping[str, bytes]
) -> Resumed:
    """Decode and fold."""
    state = State()
    done = 0
    snapshot = restored.snapshot
    try:
        with gc_paused():
            if snapshot is not None:
                state = codec.decode_state(codec.RAW, found.snapshot, contents)
            for commit, text in zip(restored.commits, found.commits, strict=True):
                fold(state, commit.origin, codec.decode(codec.RAW, text, contents))
                done += 1
        check(state)
        _agree(state, claim, restored)
    except CheckpointError as error:
        rest = restored.commits[done:]
        raise Untrusted(error, _salvaged(state.totals, rest, contents)) from error
    return Resumed(
        state,
        Growth(
            len(restored.commits),
            sum(len(commit.body) for commit in restored.commits),
            len(snapshot.body) if snapshot is not None else 0,
        ),
        set(contents),
        len(restored.commits),
        snapshot.seq if snapshot is not None else 0,
    )


def _agree(state: State, claim: Claim, restored: Restored) -> None:
    """The record is the one of the claimed row, whole and up to this attempt."""
    last = restored.commits[-1].seq if restored.commits else claim.snapshot_seq
    checks = (
        (state.run_uid == claim.run_uid, "it belongs to another run"),
        (state.spec_hash == claim.spec_hash, "it was made for another spec"),
        (state.attempt == claim.attempt, f"it ends in attempt {state.attempt}"),
        (state.fence == claim.fence, f"it ends at fence {state.fence}"),
        (last == claim.seq, f"it ends at seq {last}, the row at {claim.seq}"),
    )
    for holds, why in checks:
        if not holds:
            raise CheckpointCorrupt(
                why,
                attempted="restore",
                on=f"run {claim.run_uid}, attempt {claim.attempt}",
                advice="Nothing was executed. Restore the database from a backup.",
            )


def _salvaged(known: Totals, commits: Sequence[CommitRow], contents: Mapping[str, bytes]) -> Totals:
    """Totals with what later commits add, as far as they decode."""
    sums = known
    for commit in commits:
        try:
            sums = totals.after(sums, codec.decode(commit.codec, commit.body, contents))
        except CheckpointError:
            continue
    return sums
