"""The statements that are not appends, as functions of the wire. Run by the store thread."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from agentrun.errors import Fenced, StoreError, StoreRefused, StoreRegressed
from agentrun.store.chained import (
    check_blobs,
    check_commits,
    check_head,
    check_snapshot,
    corrupt,
)
from agentrun.store.port import Claim, Control, Restored
from agentrun.store.rows import Budgets, CommitRow, Requested, SnapshotRow
from agentrun.store.runner_store.hold import Answer, Hold
from agentrun.store.sql import load

SQL = load("runner.sql")

Rows = list[tuple[Any, ...]]


Parameters = Sequence[Any] | Mapping[str, Any]

Execute = Callable[[LiteralString, Parameters], Rows]
"""Runs one statement within the deadline and returns the rows it answers."""


@dataclass(slots=True, eq=False)
class Job:
    """Something to do between appends. Repeated through outages until ``give_up_at``."""

    name: str
    run: Callable[[Execute], Any]
    done: Callable[[Any], None]
    failed: Callable[[Exception], None]
    give_up_at: float
    urgent: bool = True


def claim(hold: Hold, execute: Execute) -> Claim:
    """Become the holder, or say why not."""
    rows = execute(
        SQL["claim"], hold.parameters(holder=hold.holder, nonce=hold.nonce, node=hold.node)
    )
    answer, *found = rows[0]
    if answer != "claimed":
        raise _refusal(str(answer), hold, found[7])
    return Claim(
        run_uid=hold.run_uid,
        object_uid=found[0],
        namespace=found[1],
        name=found[2],
        run_id=found[3],
        spec=found[4],
        spec_hash=found[5],
        attempt=found[6],
        fence=found[7],
        seq=found[8],
        snapshot_seq=found[9],
        chain=found[10],
        trace_id=found[11],
        span_id=found[12],
        lease_ttl_ms=found[13],
        active_ms=found[14],
        control=Control(
            requested=Requested(found[15]),
            requested_reason=found[16],
            budgets=Budgets(*found[17:21]),
            lease_ms=found[13],
        ),
    )


def _refusal(answer: str, hold: Hold, fence: int | None) -> StoreError:
    kind: type[StoreError]
    kind, message = {
        "fenced": (Fenced, f"the fence has moved to {fence}"),
        "held": (Fenced, "another process holds this fence"),
        "ended": (Fenced, "the run is not active any more"),
        "regressed": (StoreRegressed, f"the store is at fence {fence}, behind this attempt"),
        "denied": (StoreRefused, "the attempt's secret was not issued for this fence"),
    }[answer]
    return kind(message, attempted="claim", on=str(hold))


def renew(hold: Hold, execute: Execute) -> Answer:
    """Extend the lease."""
    return Answer(*execute(SQL["renew"], hold.parameters())[0])


def restore(hold: Hold, execute: Execute) -> Restored:
    """Snapshot and commits, verified from the snapshot (or the beginning) to the head."""
    rows = execute(SQL["restore"], hold.parameters())
    head = rows[0]
    snapshot: SnapshotRow | None = None
    commits: list[CommitRow] = []
    for part, seq, version, origin, fence, attempt, at, kind, ref, codec, chain, sha, body in rows:
        if part == "snapshot":
            snapshot = SnapshotRow(seq, version, chain, codec, body)
            check_snapshot(hold.run_uid, snapshot, sha)
        elif part == "commit":
            commits.append(
                CommitRow(seq, origin, fence, attempt, at, kind, ref, codec, chain, body)
            )
    head_seq, snapshot_seq, head_chain = head[1], head[2], head[10]
    if snapshot_seq > 0 and snapshot is None:
        raise corrupt(hold.run_uid, f"the snapshot at {snapshot_seq} is missing")
    chain = check_commits(
        hold.run_uid,
        commits,
        after=snapshot_seq,
        previous=snapshot.chain if snapshot is not None else None,
    )
    last = commits[-1].seq if commits else snapshot_seq
    check_head(hold.run_uid, seq=last, chain=chain, head_seq=head_seq, head_chain=head_chain)
    return Restored(snapshot, tuple(commits))


def get_blobs(hold: Hold, hashes: Sequence[str], execute: Execute) -> Mapping[str, bytes]:
    """Contents by hash, verified."""
    if not hashes:
        return {}
    wanted = [bytes.fromhex(name) for name in dict.fromkeys(hashes)]
    rows = execute(SQL["get_blobs"], hold.parameters(hashes=wanted))
    return check_blobs(hold.run_uid, hashes, ((row[0], row[1]) for row in rows))


def put_blobs(hold: Hold, blobs: Mapping[str, bytes], execute: Execute) -> None:
    """Put values; refused before sending when a name is not its content's hash."""
    for name, body in blobs.items():
        if hashlib.sha256(body).hexdigest() != name:
            raise StoreRefused(
                "its name is not the sha256 of its content", attempted="put a blob", on=str(hold)
            )
        execute(SQL["put_blob"], hold.parameters(body=body))


def snapshot(hold: Hold, version: int, seq: int, codec: int, body: bytes, execute: Execute) -> None:
    """Write a snapshot."""
    execute(SQL["snapshot"], hold.parameters(seq=seq, version=version, codec=codec, body=body))


def release(hold: Hold, execute: Execute) -> None:
    """End the lease now."""
    execute(SQL["release"], hold.parameters())
