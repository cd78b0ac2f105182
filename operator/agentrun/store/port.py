"""What the store offers, as two ports: one for the runner of an attempt, one for the operator.

Every method is one statement and one round trip unless it says otherwise. Errors are those of
:mod:`agentrun.errors`: StoreUnavailable (outcome unknown), Fenced, StoreRegressed, StoreRefused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentrun.run.values import LastWord, Question
from agentrun.store.rows import (
    Budgets,
    CommitRow,
    Requested,
    RunRow,
    RunState,
    SnapshotRow,
    TotalsRow,
)


@dataclass(frozen=True, slots=True)
class NewCommit:
    """One boundary: one row. ``ref`` is unique per run where given. Blobs are put before it."""

    kind: str
    ref: str | None
    codec: int
    body: bytes
    progress: bool
    approvals: tuple[Question, ...] = ()
    """Written in the same statement as the commit that asks them."""
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    """By sha256 of the content: written before the commit that names them."""


@dataclass(frozen=True, slots=True)
class Control:
    """What the operator wants, as every renewal and append answers it."""

    requested: Requested
    requested_reason: str
    budgets: Budgets
    lease_ms: int
    """How long the lease runs from the moment the statement was executed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The run as its new owner found it."""

    run_uid: str
    object_uid: str
    namespace: str
    name: str
    run_id: str
    spec: bytes
    spec_hash: str
    attempt: int
    fence: int
    seq: int
    snapshot_seq: int
    chain: bytes
    trace_id: str
    span_id: str
    lease_ttl_ms: int
    control: Control
    active_ms: int


@dataclass(frozen=True, slots=True)
class Restored:
    """Latest snapshot (None: from the beginning) and every commit after it, chain verified."""

    snapshot: SnapshotRow | None
    commits: tuple[CommitRow, ...]


class RunnerStore(Protocol):
    """One attempt's hold on its run: one thread, one connection, one append in flight.

    Bound to (run UID, fence, attempt secret, pod UID, process nonce) when it is made. Async methods
    may be called from one event loop only. Implemented by
    ``agentrun.store.runner_store.open_runner_store(dsn, run_uid, fence, secret, holder, nonce)``.
    """

    async def claim(self) -> Claim:
        """Become the holder; repeating it from the same process is harmless (H17). Fenced if not ours."""
        ...

    async def restore(self) -> Restored:
        """Everything needed to fold the state. CheckpointCorrupt on any broken hash or gap."""
        ...

    async def blobs(self, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Contents by sha256, verified. CheckpointCorrupt when one is missing or altered."""
        ...

    async def append(
        self, commit: NewCommit, totals: TotalsRow, *, end: LastWord | None = None
    ) -> int:
        """Make one boundary durable and return its seq.

        Concurrent calls are grouped into one statement, one row each, in call order. Returns only
        when the commit has landed; retried through outages by write_id until it has, is fenced
        (Fenced), is refused for good (StoreRefused, only for the culprit of a group), or the store
        went backwards (StoreRegressed). ``uncommitted_age`` says how old the tail is meanwhile.
        """
        ...

    async def snapshot(
        self,
        version: int,
        seq: int,
        codec: int,
        body: bytes,
        blobs: Mapping[str, bytes] | None = None,
    ) -> None:
        """Write a snapshot of the state at ``seq``, beside the boundaries (H54).

        ``blobs`` are put before it. StoreUnavailable at the first outage: the next one will do.
        """
        ...

    async def release(self) -> None:
        """Let the next attempt start without waiting for the lease. The holder stays (H17)."""
        ...

    def control(self) -> Control:
        """What the operator wants, by the latest answer (from the last renewal or append).

        Raises what ended the hold (Fenced, StoreRegressed), once a renewal or append was told so.
        """
        ...

    async def control_changed(self, known: Control) -> Control:
        """Wait until that differs from ``known``; raises what ended the hold."""
        ...

    def lease_age(self) -> float:
        """Seconds, on a clock that counts suspend, since the last renewal that was answered was
        sent. Past 2/3 TTL: start nothing; past TTL: idle."""
        ...

    def uncommitted_age(self) -> float:
        """Seconds that the oldest unlanded append has been waiting; 0 when there is none (H2)."""
        ...

    def mark_progress(self) -> None:
        """Tell the renewal that the main loop lives; without it for ``stallSeconds`` it stops."""
        ...

    async def close(self) -> None:
        """Stop the thread and the connection. Nothing is released."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """What the operator saw when it decided: repeated in the WHERE of what it writes (H60)."""

    run_uid: str
    object_uid: str
    fence: int
    seq: int
    state: RunState
    holder: str | None


LEASE_EXPIRED = "LeaseExpired"
"""The cause of an end that nobody saw: whatever acts on it checks that the lease is still over."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How the seen attempt ended, written once, in the statement that acts on it."""

    cause: str
    fault: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """The attempt to mint: number = seen attempt + 1, fence = seen fence + 1, one secret."""

    secret_hash: bytes
    trace_id: str
    span_id: str
    pod: str
    body: bytes
    """The commit's body: attempt/end of the previous one if not yet recorded, attempt/start."""
    codec: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """What the first mint captures of an object; the spec is the truth for ever."""

    run_uid: str
    object_uid: str
    installation: str
    namespace_uid: str
    namespace: str
    name: str
    run_id: str
    spec: bytes
    spec_hash: str
    generation: int
    lease_ttl_ms: int
    requested: Requested
    requested_reason: str
    budgets: Budgets


class OperatorStore(Protocol):
    """The operator's side. Implemented by ``agentrun.store.operator_store.open_operator_store``.

    Methods that act return the new row, or None when the WHERE did not match: the facts have moved,
    observe again. Nothing is ever half done.
    """

    async def open_run(self, new: NewRun) -> RunRow:
        """The row of this object, made (Pending) if it is not there. Never overwrites."""
        ...

    async def run(self, run_uid: str) -> RunRow | None:
        """One run with its pending approvals and last attempts, or None."""
        ...

    async def live(self, installation: str) -> tuple[RunRow, ...]:
        """All rows in Active (no spec bytes, no attempts): the progress poll."""
        ...

    async def unfinished(self, installation: str) -> tuple[RunRow, ...]:
        """All rows that are not over (no spec bytes, no attempts): the sweep."""
        ...

    async def request(
        self,
        run_uid: str,
        object_uid: str,
        generation: int,
        requested: Requested,
        reason: str,
        by: str,
        budgets: Budgets,
    ) -> RunRow | None:
        """Write what is wanted: only for this object and a generation not older than the row's
        (H63); cancel latches."""
        ...

    async def mint(
        self, seen: Seen, because: str, new: NewAttempt, end: AttemptEnd | None
    ) -> RunRow | None:
        """Next attempt. ``because`` is one of: start (Pending), lease-expired, ended (claimed or
        not, the container's end was observed), gone (claimed fences only), terminating (unclaimed
        ones only: the pod has a deletionTimestamp), charged (ended earlier, back-off over),
        resumed (Suspended, nothing pending, retry_at over, the budget that stopped it raised).
        Each repeats its condition, and all of them object, fence, seq and requested = run."""
        ...

    async def add_secret(self, seen: Seen, secret_hash: bytes) -> RunRow | None:
        """One more secret for the current unclaimed fence (the pod was never created, H25).
        Only while requested = run."""
        ...

    async def charge(self, seen: Seen, end: AttemptEnd, backoff_ms: int) -> RunRow | None:
        """Record the end of the seen attempt and count its fault; the mint comes after back-off."""
        ...

    async def finish(
        self,
        seen: Seen,
        state: RunState,
        reason: str,
        message: str,
        codec: int,
        body: bytes,
        end: AttemptEnd | None,
    ) -> RunRow | None:
        """The operator's own outcome: raises the fence in the same statement (H61).

        Cancelled only while requested = cancel. Without that the seen seq must still be the row's
        (a commit in between may have ended the run or moved it on)."""
        ...

    async def suspend(
        self, seen: Seen, reason: str, message: str, codec: int, body: bytes, end: AttemptEnd | None
    ) -> RunRow | None:
        """Suspended by the operator because the pod did not settle: raises the fence. Only while
        requested = suspend."""
        ...

    async def revoke(self, run_uid: str, object_uid: str, reason: str) -> RunRow | None:
        """The object is gone: no owner may write any more (H64: only for this object)."""
        ...

    async def bind_approval(
        self, run_uid: str, approval_id: str, object_uid: str, seen_object_uid: str | None
    ) -> bool:
        """Remember which object stands for the question (H71)."""
        ...

    async def decide(
        self,
        seen: Seen,
        approval_id: str,
        approval_object_uid: str,
        decision: str,
        decided_by: str,
        content_hash: str,
        codec: int,
        body: bytes,
        new: NewAttempt | None,
    ) -> RunRow | None:
        """Consume a decision (only in Suspended) and mint if nothing else is pending and
        requested = run. Locks the run row first (H12).

        Only for the Approval object that is bound and the content that the row has; ``decision``
        Stale is the answer to other content. Never after a cancel."""
        ...

    async def commits(self, run_uid: str, after: int = 0) -> Restored:
        """The record for reading (transcript, verify, export): snapshot None, all commits."""
        ...

    async def blobs(self, run_uid: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Contents by sha256."""
        ...

    async def purge_secrets(self, run_uid: str) -> None:
        """Forget unused attempt secrets of this and older fences, once claimed."""
        ...

    async def ping(self) -> None:
        """Raise StoreUnavailable or SchemaMismatch if the store cannot be used."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
