"""From the store to a state: latest snapshot, the commits after it, folded and checked.

Three queries at most: the record, and once the blobs that it names. Nothing is executed unless every
check passes (DESIGN section 7, never silently fresh).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from agentrun.errors import CheckpointCorrupt, CheckpointError
from agentrun.run import codec, totals
from agentrun.run.fold import check, fold
from agentrun.run.state import State, Totals
from agentrun.runner.snapshots import Growth
from agentrun.store.port import Claim, Restored, RunnerStore
from agentrun.store.rows import CommitRow


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


async def restore(
    store: RunnerStore,
    claim: Claim,
    offload: Callable[[Callable[[], Resumed]], Awaitable[Resumed]],
) -> Resumed:
    """The state of the claimed run. CheckpointError from the store's own checks, Untrusted after."""
    restored = await store.restore()
    names = named_blobs(restored)
    contents = await store.blobs(names) if names else {}
    return await offload(lambda: folded(claim, restored, contents))


def named_blobs(restored: Restored) -> tuple[str, ...]:
    """Every blob that has to be there, each once."""
    found: dict[str, None] = {}
    if restored.snapshot is not None:
        found.update(
            dict.fromkeys(codec.blob_refs(restored.snapshot.codec, restored.snapshot.body))
        )
    for commit in restored.commits:
        found.update(dict.fromkeys(codec.blob_refs(commit.codec, commit.body)))
    return tuple(found)


def folded(claim: Claim, restored: Restored, contents: Mapping[str, bytes]) -> Resumed:
    """Decode and fold. Pure, so that it can run beside the event loop."""
    state = State()
    done = 0
    try:
        snapshot = restored.snapshot
        if snapshot is not None:
            state = codec.decode_state(snapshot.codec, snapshot.body, contents)
        for commit in restored.commits:
            records = codec.decode(commit.codec, commit.body, contents)
            fold(state, commit.origin, records)
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
