"""What comes out of the store: frozen values, times as the database's own.

Durations are milliseconds. Nobody compares a database time with a local clock; rows that decisions
depend on come with ``db_now`` of the same statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RunState(StrEnum):
    """State of a run row. The last five match no further write but deletion."""

    PENDING = "Pending"
    ACTIVE = "Active"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    REJECTED = "Rejected"
    REVOKED = "Revoked"

    @property
    def terminal(self) -> bool:
        """Whether nothing can change it any more."""
        return self not in (RunState.PENDING, RunState.ACTIVE, RunState.SUSPENDED)


class Requested(StrEnum):
    """What the operator wants of the runner; read with every renewal. ``cancel`` latches."""

    RUN = "run"
    SUSPEND = "suspend"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Budgets:
    """The mutable limits in force; None = none. ``cost`` in picodollars."""

    turns: int | None = None
    tokens: int | None = None
    cost: int | None = None
    active_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class TotalsRow:
    """Sums over all attempts, written with every append. ``cost`` in picodollars."""

    turns: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: int = 0


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt as the store knows it. ``pod_uid`` is the holder, None until it claimed."""

    attempt: int
    fence: int
    pod: str
    pod_uid: str | None
    node: str | None
    trace_id: str
    span_id: str
    continued_from_attempt: int | None
    continued_from_seq: int | None
    started_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    cause: str | None
    fault: str | None
    exit_code: int | None
    last_seq: int | None


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """A question to a person. ``object_uid`` is the Approval object the operator made for it."""

    id: str
    run_uid: str
    scope: str
    boundary: str
    ordinal: int
    content: bytes
    content_hash: str
    reason: str
    state: str
    object_uid: str | None
    requested_at: datetime
    decided_by: str | None
    decided_at: datetime | None
    consumed_attempt: int | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """The run row, with the database's clock of the statement that read it."""

    run_uid: str
    object_uid: str
    installation: str
    namespace: str
    name: str
    run_id: str
    spec: bytes
    spec_hash: str
    generation: int
    state: RunState
    reason: str
    message: str
    attempt: int
    fence: int
    holder: str | None
    lease_ttl_ms: int
    lease_expires_at: datetime | None
    seq: int
    snapshot_seq: int
    requested: Requested
    requested_reason: str
    requested_by: str
    budgets: Budgets
    app_faults: int
    infra_faults: int
    faults_at_progress: int
    """App faults since the last progress: three end the run (NoProgress)."""
    backoff_step: int
    """Exponent of the next back-off; progress resets it, never the counters above."""
    retry_at: datetime | None
    """No mint before this time (back-off, or the wait a suspension asked for)."""
    progress_seq: int
    trace_id: str
    span_id: str
    totals: TotalsRow
    active_ms: int
    """Time that ended attempts were running, claim to end."""
    active_since: datetime | None
    """When the current attempt claimed; None when none is running."""
    preview: str
    """Bounded result preview."""
    created_at: datetime
    first_commit_at: datetime | None
    last_commit_at: datetime | None
    suspended_at: datetime | None
    finished_at: datetime | None
    db_now: datetime
    pending_approvals: tuple[ApprovalRow, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    """The last ten, oldest first."""
    unasked: bool = False
    """Whether a question is pending for which there is no object yet (the progress poll only)."""

    @property
    def lease_expired(self) -> bool:
        """Whether a claimed lease has run out by the database's clock. Unclaimed ones never do (H16)."""
        return (
            self.state is RunState.ACTIVE
            and self.holder is not None
            and self.lease_expires_at is not None
            and self.lease_expires_at <= self.db_now
        )


@dataclass(frozen=True, slots=True)
class CommitRow:
    """One commit, verified: the chain from the start (or the snapshot) to here is unbroken."""

    seq: int
    origin: str
    fence: int
    attempt: int
    at: datetime
    kind: str
    ref: str | None
    codec: int
    chain: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A self-contained state at ``seq``; ``chain`` is the commit chain's hash at that seq."""

    seq: int
    version: int
    chain: bytes
    codec: int
    body: bytes
