"""Check what was read before anybody believes it: hashes, chain, order, completeness."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from agentrun.errors import CheckpointCorrupt
from agentrun.run.chain import genesis, link
from agentrun.store.rows import CommitRow, SnapshotRow

_ADVICE = "Restore the database from a backup; nothing was executed."


def check_commits(
    run_uid: str, commits: Sequence[CommitRow], *, after: int, previous: bytes | None
) -> bytes:
    """Verify that the commits follow ``after`` without gap or change; the hash of the last one.

    ``previous`` is the chain's hash at ``after``; None for the beginning.
    """
    chain = genesis(run_uid) if previous is None else previous
    seq = after
    for commit in commits:
        seq += 1
        if commit.seq != seq:
            raise corrupt(run_uid, f"commit {seq} is missing")
        chain = link(chain, seq, commit.origin, commit.kind, commit.ref, commit.codec, commit.body)
        if chain != commit.chain:
            raise corrupt(run_uid, f"commit {seq} does not match the hash chain")
    return chain


def check_snapshot(run_uid: str, snapshot: SnapshotRow, digest: bytes) -> None:
    """Verify a snapshot's own hash, which covers its position, version, chain and body."""
    head = f"{snapshot.seq}|{snapshot.version}|{snapshot.codec}|".encode()
    if hashlib.sha256(head + snapshot.chain + snapshot.body).digest() != digest:
        raise corrupt(run_uid, f"the snapshot at {snapshot.seq} does not match its hash")


def check_head(run_uid: str, *, seq: int, chain: bytes, head_seq: int, head_chain: bytes) -> None:
    """Verify that what was read ends where the run row says: nothing is missing at the end."""
    if seq != head_seq:
        raise corrupt(run_uid, f"the record ends at {seq}, the run is at {head_seq}")
    if chain != head_chain:
        raise corrupt(run_uid, f"the hash at {seq} is not the run's")


def check_blobs(
    run_uid: str, wanted: Iterable[str], rows: Iterable[tuple[bytes, bytes]]
) -> Mapping[str, bytes]:
    """Contents by hex hash, each verified, none missing."""
    found: dict[str, bytes] = {}
    for digest, body in rows:
        if hashlib.sha256(body).digest() != digest:
            raise corrupt(run_uid, f"blob {digest.hex()} does not match its hash")
        found[digest.hex()] = body
    for name in wanted:
        if name not in found:
            raise corrupt(run_uid, f"blob {name} is missing")
    return found


def corrupt(run_uid: str, message: str) -> CheckpointCorrupt:
    """The one way to say that a record cannot be trusted."""
    return CheckpointCorrupt(
        message, attempted="read the record", on=f"run {run_uid}", advice=_ADVICE
    )
