"""The two ports in memory, with the semantics of the real ones, and a clock that tests move.

``FakeStore`` follows the SQL functions statement by statement (what each WHERE repeats, what raises
the fence, what ends an attempt); its runner side is what a pod does. ``FakeCluster`` has UIDs,
resourceVersions, preconditions, taken names and a change log that watches read at their own pace.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from agentrun.api import AgentRun, AgentRunStatus, Approval, ApprovalStatus
from agentrun.cluster.values import (
    AttemptPod,
    AttemptSecret,
    ClusterEvent,
    ContainerEnd,
    ObjectKey,
    PodView,
    SecretView,
)
from agentrun.errors import AlreadyExists, Conflict, Forbidden, NotFound, StoreUnavailable
from agentrun.run.values import Question
from agentrun.store.port import (
    LEASE_EXPIRED,
    AttemptEnd,
    NewAttempt,
    NewRun,
    Restored,
    Seen,
)
from agentrun.store.rows import (
    ApprovalRow,
    AttemptRow,
    Budgets,
    Requested,
    RunRow,
    RunState,
    TotalsRow,
)

T = TypeVar("T")
START = datetime(2026, 6, 1, 12, tzinfo=UTC)


@dataclass
class Clock:
    """Seconds since the test began, for everybody."""

    seconds: float = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        """The same moment as a date."""
        return START + timedelta(seconds=self.seconds)


@dataclass(frozen=True)
class Commit:
    """One row of the log."""

    seq: int
    origin: str
    fence: int
    attempt: int
    kind: str
    ref: str | None
    codec: int
    body: bytes


@dataclass
class FakeStore:
    """Implements OperatorStore in memory, and what a pod does to it."""

    clock: Clock
    up: bool = True
    rows: dict[str, RunRow] = field(default_factory=dict)
    attempts: dict[str, list[AttemptRow]] = field(default_factory=dict)
    approvals: dict[str, ApprovalRow] = field(default_factory=dict)
    secrets: dict[tuple[str, int], set[bytes]] = field(default_factory=dict)
    log: dict[str, list[Commit]] = field(default_factory=dict)
    mints: list[tuple[str, int, int, str]] = field(default_factory=list)
    """(run, attempt, fence, because) of every mint."""

    # What every statement shares.

    def _ask(self) -> None:
        if not self.up:
            raise StoreUnavailable("no answer", attempted="ask the store")

    def facts(self, uid: str) -> RunRow | None:
        """The row as one statement reads it."""
        row = self.rows.get(uid)
        if row is None:
            return None
        pending = tuple(
            a for a in self.approvals.values() if a.run_uid == uid and a.state == "Pending"
        )
        return replace(
            row,
            db_now=self.clock.wall(),
            pending_approvals=pending,
            attempts=tuple(self.attempts.get(uid, ())[-10:]),
        )

    def _seen(self, seen: Seen) -> RunRow | None:
        self._ask()
        row = self.facts(seen.run_uid)
        if (
            row is None
            or row.state.terminal
            or (row.object_uid, row.fence, row.state, row.holder)
            != (seen.object_uid, seen.fence, seen.state, seen.holder)
        ):
            return None
        return row

    def _put(self, row: RunRow) -> RunRow | None:
        self.rows[row.run_uid] = replace(row, pending_approvals=(), attempts=())
        return self.facts(row.run_uid)

    def _open(self, row: RunRow) -> bool:
        return any(a.attempt == row.attempt and a.ended_at is None for a in row.attempts)

    def _commit(
        self, row: RunRow, origin: str, kind: str, ref: str | None, codec: int, body: bytes
    ) -> RunRow:
        log = self.log.setdefault(row.run_uid, [])
        assert ref is None or all(commit.ref != ref for commit in log), f"{ref} twice"
        seq = row.seq + 1
        assert len(log) == row.seq, "the log has a gap"
        log.append(Commit(seq, origin, row.fence, row.attempt, kind, ref, codec, body))
        return replace(row, seq=seq)

    def _end(self, row: RunRow, cause: str, fault: str, code: int | None) -> RunRow:
        now, found = self.clock.wall(), False
        kept = self.attempts.get(row.run_uid, [])
        for index, attempt in enumerate(kept):
            if attempt.attempt == row.attempt and attempt.ended_at is None:
                found = True
                kept[index] = replace(
                    attempt,
                    ended_at=now,
                    cause=cause,
                    fault=fault,
                    exit_code=code,
                    last_seq=row.seq,
                )
        if found and fault == "App":
            row = replace(
                row,
                app_faults=row.app_faults + 1,
                faults_at_progress=row.faults_at_progress + 1,
                backoff_step=row.backoff_step + 1,
            )
        elif found and fault == "Infra":
            row = replace(row, infra_faults=row.infra_faults + 1)
        if row.active_since is not None:
            end = min(now, row.lease_expires_at or now)
            ran = max(int((end - row.active_since).total_seconds() * 1000), 0)
            row = replace(row, active_ms=row.active_ms + ran, active_since=None)
        self.secrets.pop((row.run_uid, row.fence), None)
        return row

    def _raise(self, row: RunRow) -> RunRow:
        return replace(row, fence=row.fence + 1, holder=None, lease_expires_at=None)

    def _close(
        self, row: RunRow, state: RunState, reason: str, message: str, end: AttemptEnd | None
    ) -> RunRow:
        end = end or AttemptEnd(state.value, "None")
        row = self._raise(self._end(row, end.cause, end.fault, end.exit_code))
        now = self.clock.wall()
        row = replace(row, state=state, reason=reason, message=message, retry_at=None)
        if state is RunState.SUSPENDED:
            return replace(row, suspended_at=now)
        self._close_approvals(row.run_uid)
        return replace(row, finished_at=now)

    def _close_approvals(self, uid: str) -> None:
        for key, approval in self.approvals.items():
            if approval.run_uid == uid and approval.state == "Pending":
                self.approvals[key] = replace(approval, state="Closed")

    def _next(self, row: RunRow, new: NewAttempt, because: str) -> RunRow:
        last = next((a.last_seq for a in row.attempts if a.attempt == row.attempt), None)
        kept = self.attempts.setdefault(row.run_uid, [])
        number = row.attempt + 1
        kept.append(
            AttemptRow(
                attempt=number,
                fence=row.fence + 1,
                pod=new.pod,
                pod_uid=None,
                node=None,
                trace_id=new.trace_id,
                span_id=new.span_id,
                continued_from_attempt=row.attempt or None,
                continued_from_seq=last,
                started_at=self.clock.wall(),
                claimed_at=None,
                ended_at=None,
                cause=None,
                fault=None,
                exit_code=None,
                last_seq=None,
            )
        )
        row = replace(
            self._raise(row),
            attempt=number,
            state=RunState.ACTIVE,
            reason="",
            message="",
            retry_at=None,
            suspended_at=None,
            trace_id=new.trace_id,
            span_id=new.span_id,
        )
        self.secrets[(row.run_uid, row.fence)] = {new.secret_hash}
        self.mints.append((row.run_uid, row.attempt, row.fence, because))
        return self._commit(row, "O", "attempt/start", None, new.codec, new.body)

    def _resumable(self, row: RunRow) -> bool:
        now, budgets, totals = self.clock.wall(), row.budgets, row.totals
        tokens = totals.input_tokens + totals.output_tokens
        tokens += totals.cache_read_tokens + totals.cache_write_tokens
        spent = (
            (budgets.turns is not None and totals.turns >= budgets.turns)
            or (budgets.tokens is not None and tokens >= budgets.tokens)
            or (budgets.cost is not None and totals.cost >= budgets.cost)
            or (
                budgets.active_seconds is not None
                and row.active_ms >= 1000 * budgets.active_seconds
            )
        )
        pending = self.facts(row.run_uid)
        return (
            row.requested is Requested.RUN
            and (row.retry_at is None or row.retry_at <= now)
            and pending is not None
            and not pending.pending_approvals
            and (row.reason != "BudgetExceeded" or not spent)
        )

    # The operator's side.

    async def open_run(self, new: NewRun) -> RunRow:
        self._ask()
        if new.run_uid not in self.rows:
            now = self.clock.wall()
            self.rows[new.run_uid] = RunRow(
                run_uid=new.run_uid,
                object_uid=new.object_uid,
                installation=new.installation,
                namespace=new.namespace,
                name=new.name,
                run_id=new.run_id,
                spec=new.spec,
                spec_hash=new.spec_hash,
                generation=new.generation,
                state=RunState.PENDING,
                reason="",
                message="",
                attempt=0,
                fence=0,
                holder=None,
                lease_ttl_ms=new.lease_ttl_ms,
                lease_expires_at=None,
                seq=0,
                snapshot_seq=0,
                requested=new.requested,
                requested_reason=new.requested_reason,
                requested_by="",
                budgets=new.budgets,
                app_faults=0,
                infra_faults=0,
                faults_at_progress=0,
                backoff_step=0,
                retry_at=None,
                progress_seq=0,
                trace_id="",
                span_id="",
                totals=TotalsRow(),
                active_ms=0,
                active_since=None,
                preview="",
                created_at=now,
                first_commit_at=None,
                last_commit_at=None,
                suspended_at=None,
                finished_at=None,
                db_now=now,
            )
        found = self.facts(new.run_uid)
        assert found is not None
        return found

    async def run(self, run_uid: str) -> RunRow | None:
        self._ask()
        return self.facts(run_uid)

    async def live(self, installation: str) -> tuple[RunRow, ...]:
        self._ask()
        return tuple(
            replace(row, spec=b"", db_now=self.clock.wall(), unasked=self._unasked(row.run_uid))
            for row in self.rows.values()
            if row.installation == installation and row.state is RunState.ACTIVE
        )

    def _unasked(self, uid: str) -> bool:
        asked = [a for a in self.approvals.values() if a.run_uid == uid and a.state == "Pending"]
        return any(approval.object_uid is None for approval in asked)

    async def unfinished(self, installation: str) -> tuple[RunRow, ...]:
        self._ask()
        return tuple(
            replace(row, spec=b"", db_now=self.clock.wall())
            for row in self.rows.values()
            if row.installation == installation and not row.state.terminal
        )

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
        self._ask()
        row = self.rows.get(run_uid)
        if (
            row is None
            or row.state.terminal
            or row.object_uid != object_uid
            or row.generation > generation
        ):
            return None
        if row.requested is not Requested.CANCEL:
            row = replace(row, requested=requested, requested_reason=reason, requested_by=by)
        return self._put(replace(row, generation=generation, budgets=budgets))

    async def mint(
        self, seen: Seen, because: str, new: NewAttempt, end: AttemptEnd | None
    ) -> RunRow | None:
        row = self._seen(seen)
        if row is None or row.seq != seen.seq or row.requested is not Requested.RUN:
            return None
        active, still = row.state is RunState.ACTIVE, self._open(row)
        now = self.clock.wall()
        allowed = {
            "start": row.state is RunState.PENDING,
            "lease-expired": active and still and row.lease_expired,
            "ended": active and still,
            "gone": active and still and row.holder is not None,
            "terminating": active and still and row.holder is None,
            "charged": active and not still and (row.retry_at is None or row.retry_at <= now),
            "resumed": row.state is RunState.SUSPENDED and self._resumable(row),
        }[because]
        if not allowed:
            return None
        if still:
            last = end or AttemptEnd(because, "None")
            row = self._end(row, last.cause, last.fault, last.exit_code)
            row = replace(row, attempts=tuple(self.attempts[row.run_uid]))
        return self._put(self._next(row, new, because))

    async def add_secret(self, seen: Seen, secret_hash: bytes) -> RunRow | None:
        row = self._seen(replace(seen, holder=None))
        if (
            row is None
            or row.state is not RunState.ACTIVE
            or row.requested is not Requested.RUN
            or not self._open(row)
        ):
            return None
        self.secrets.setdefault((row.run_uid, row.fence), set()).add(secret_hash)
        return row

    async def charge(self, seen: Seen, end: AttemptEnd, backoff_ms: int) -> RunRow | None:
        row = self._seen(seen)
        if (
            row is None
            or row.state is not RunState.ACTIVE
            or row.seq != seen.seq
            or not self._open(row)
            or (end.cause == LEASE_EXPIRED and not row.lease_expired)
        ):
            return None
        row = self._end(row, end.cause, end.fault, end.exit_code)
        wait = timedelta(milliseconds=backoff_ms)
        return self._put(replace(row, retry_at=self.clock.wall() + wait))

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
        row = self._seen(seen)
        if (
            row is None
            or (row.seq != seen.seq and row.requested is not Requested.CANCEL)
            or (state is RunState.CANCELLED and row.requested is not Requested.CANCEL)
            or (end is not None and end.cause == LEASE_EXPIRED and not row.lease_expired)
        ):
            return None
        row = self._close(row, state, reason, message, end)
        return self._put(self._commit(row, "O", "run/end", None, codec, body))

    async def suspend(
        self, seen: Seen, reason: str, message: str, codec: int, body: bytes, end: AttemptEnd | None
    ) -> RunRow | None:
        row = self._seen(seen)
        if (
            row is None
            or row.state is not RunState.ACTIVE
            or row.requested is not Requested.SUSPEND
            or (end is not None and end.cause == LEASE_EXPIRED and not row.lease_expired)
        ):
            return None
        row = self._close(row, RunState.SUSPENDED, reason, message, end)
        return self._put(self._commit(row, "O", "run/suspend", None, codec, body))

    async def revoke(self, run_uid: str, object_uid: str, reason: str) -> RunRow | None:
        self._ask()
        row = self.facts(run_uid)
        if row is None or row.state.terminal or row.object_uid != object_uid:
            return None
        return self._put(self._close(row, RunState.REVOKED, reason, "", None))

    async def bind_approval(
        self, run_uid: str, approval_id: str, object_uid: str, seen_object_uid: str | None
    ) -> bool:
        self._ask()
        approval = self.approvals[approval_id]
        theirs = approval.run_uid == run_uid and approval.state == "Pending"
        if not theirs or approval.object_uid != seen_object_uid:
            return False
        self.approvals[approval_id] = replace(approval, object_uid=object_uid)
        return True

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
        self._ask()
        row, approval = self.facts(seen.run_uid), self.approvals.get(approval_id)
        if (
            row is None
            or approval is None
            or row.object_uid != seen.object_uid
            or row.fence != seen.fence
            or row.state is not RunState.SUSPENDED
            or row.requested is Requested.CANCEL
            or approval.state != "Pending"
            or approval.object_uid != approval_object_uid
            or (approval.content_hash != content_hash and decision != "Stale")
        ):
            return None
        state = {"Approve": "Approved", "Deny": "Denied"}.get(decision, decision)
        self.approvals[approval_id] = replace(
            approval,
            state=state,
            decided_by=decided_by,
            decided_at=self.clock.wall(),
            consumed_attempt=row.attempt + 1,
        )
        row = self._commit(row, "O", "approval/decision", f"decision:{approval_id}", codec, body)
        if new is not None and self._resumable(row):
            row = self._next(row, new, "decided")
        return self._put(row)

    async def commits(self, run_uid: str, after: int = 0) -> Restored:
        raise AssertionError("the controller reads no commits: the row has what it needs")

    async def blobs(self, run_uid: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        return {}

    async def purge_secrets(self, run_uid: str) -> None:
        self._ask()
        row = self.rows.get(run_uid)
        for uid, fence in list(self.secrets):
            if uid == run_uid and row is not None and (fence < row.fence or row.holder is not None):
                del self.secrets[(uid, fence)]

    async def ping(self) -> None:
        self._ask()

    async def close(self) -> None:
        return

    # A pod's side.

    def claim(self, uid: str, fence: int, secret: str, holder: str, node: str = "n1") -> bool:
        """Become the holder, if the fence is free and the secret was issued for it."""
        row = self.facts(uid)
        hashed = hashlib.sha256(secret.encode()).digest()
        if (
            row is None
            or row.fence != fence
            or row.state is not RunState.ACTIVE
            or row.holder is not None
            or hashed not in self.secrets.get((uid, fence), set())
        ):
            return False
        now = self.clock.wall()
        kept = self.attempts[uid]
        kept[-1] = replace(kept[-1], pod_uid=holder, node=node, claimed_at=now)
        lease = now + timedelta(milliseconds=row.lease_ttl_ms)
        self.secrets.pop((uid, fence), None)
        self._put(replace(row, holder=holder, lease_expires_at=lease, active_since=now))
        return True

    def owns(self, uid: str, fence: int, holder: str) -> bool:
        """Whether a write of this pod would land."""
        row = self.rows.get(uid)
        return (
            row is not None
            and (row.fence, row.holder) == (fence, holder)
            and row.state is RunState.ACTIVE
        )

    def renew(self, uid: str, fence: int, holder: str) -> bool:
        """Extend the lease."""
        if not self.owns(uid, fence, holder):
            return False
        row = self.rows[uid]
        lease = self.clock.wall() + timedelta(milliseconds=row.lease_ttl_ms)
        self.rows[uid] = replace(row, lease_expires_at=lease)
        return True

    def append(
        self,
        uid: str,
        fence: int,
        holder: str,
        *,
        state: RunState | None = None,
        reason: str = "",
        questions: Sequence[Question] = (),
        wait: float = 0.0,
        progress: bool = True,
    ) -> bool:
        """One boundary; with ``state`` the attempt's last."""
        if not self.owns(uid, fence, holder):
            return False
        now = self.clock.wall()
        row = self._commit(self.rows[uid], "R", "boundary", None, 0, b"{}")
        row = replace(
            row,
            first_commit_at=row.first_commit_at or now,
            last_commit_at=now,
            lease_expires_at=now + timedelta(milliseconds=row.lease_ttl_ms),
            totals=replace(row.totals, turns=row.totals.turns + 1),
        )
        if progress:
            row = replace(row, progress_seq=row.seq, faults_at_progress=0, backoff_step=0)
        for asked in questions:
            self.approvals[asked.id] = _asked(uid, asked, now)
        if state is not None:
            row = self._settle(row, state, reason, wait)
        self._put(row)
        return True

    def _settle(self, row: RunRow, state: RunState, reason: str, wait: float) -> RunRow:
        now = self.clock.wall()
        row = self._end(row, state.value, "None", None)
        suspended = state is RunState.SUSPENDED
        if not suspended:
            self._close_approvals(row.run_uid)
        return replace(
            row,
            state=state,
            reason=reason or state.value,
            suspended_at=now if suspended else None,
            finished_at=None if suspended else now,
            retry_at=now + timedelta(seconds=wait) if wait else None,
        )

    def release(self, uid: str, fence: int, holder: str) -> None:
        """Let the next attempt start at once."""
        if self.owns(uid, fence, holder):
            self.rows[uid] = replace(self.rows[uid], lease_expires_at=self.clock.wall())


def _asked(uid: str, asked: Question, now: datetime) -> ApprovalRow:
    return ApprovalRow(
        id=asked.id,
        run_uid=uid,
        scope=asked.scope,
        boundary=asked.boundary,
        ordinal=asked.ordinal,
        content=asked.content,
        content_hash=asked.content_hash,
        reason=asked.reason,
        state="Pending",
        object_uid=None,
        requested_at=now,
        decided_by=None,
        decided_at=None,
        consumed_attempt=None,
    )


@dataclass(frozen=True)
class Change:
    """One event of a watch."""

    kind: str
    item: AgentRun | Approval | PodView
    deleted: bool = False


@dataclass
class FakeCluster:
    """Implements Cluster in memory."""

    clock: Clock
    runs: dict[ObjectKey, AgentRun] = field(default_factory=dict)
    pods: dict[ObjectKey, PodView] = field(default_factory=dict)
    approvals: dict[ObjectKey, Approval] = field(default_factory=dict)
    secrets: dict[ObjectKey, AttemptSecret] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    """Name of the Secret of each pod, by pod UID."""
    configs: dict[tuple[ObjectKey, str], str] = field(default_factory=dict)
    user_secrets: set[tuple[ObjectKey, str]] | None = None
    terminating: set[str] = field(default_factory=set)
    changes_log: list[Change] = field(default_factory=list)
    created: list[tuple[str, int, str]] = field(default_factory=list)
    """(run UID, fence, pod UID) of every pod that was ever created."""
    avoided: dict[str, str | None] = field(default_factory=dict)
    events: list[ClusterEvent] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    refuse_pods: Exception | None = None
    squatted: set[str] = field(default_factory=set)
    """Secret names that are taken by somebody else."""
    counter: int = 100

    def _next(self) -> int:
        self.counter += 1
        return self.counter

    def _log(self, item: AgentRun | Approval | PodView, *, deleted: bool = False) -> None:
        self.changes_log.append(Change(type(item).__name__, item, deleted))

    # What users, kubelets and the garbage collector do.

    def apply(self, run: AgentRun) -> AgentRun:
        """Create the object, or change its spec."""
        key = ObjectKey(run.metadata.namespace, run.metadata.name)
        old = self.runs.get(key)
        same = old is not None and old.metadata.uid == run.metadata.uid
        meta = run.metadata.model_copy(
            update={
                "resource_version": str(self._next()),
                "generation": old.metadata.generation + 1 if same and old is not None else 1,
            }
        )
        run = run.model_copy(
            update={"metadata": meta, "status": old.status if same and old else None}
        )
        self.runs[key] = run
        self._log(run)
        return run

    def remove(self, key: ObjectKey) -> None:
        """Delete a run; what it owned goes with it, as soon as the collector comes by."""
        run = self.runs.pop(key)
        self._log(run, deleted=True)

    def collect(self) -> None:
        """The garbage collector: pods, Secrets and approvals whose owner is gone."""
        uids = {run.metadata.uid for run in self.runs.values()}
        for pod in list(self.pods.values()):
            if pod.owner_uid is not None and pod.owner_uid not in uids:
                self.vanish(pod.key)
        for key, approval in list(self.approvals.items()):
            if approval.metadata.owner_references[0].uid not in uids:
                del self.approvals[key]
                self._log(approval, deleted=True)
        self.secrets = {k: s for k, s in self.secrets.items() if s.run.metadata.uid in uids}

    def set_pod(self, key: ObjectKey, **changes: Any) -> PodView:
        """What the kubelet reports."""
        pod = replace(self.pods[key], **changes)
        self.pods[key] = pod
        self._log(pod)
        return pod

    def end_pod(self, key: ObjectKey, code: int, reason: str = "Error", **changes: Any) -> None:
        """The runner container has ended; a pod that was being deleted goes."""
        pod = self.set_pod(
            key,
            phase="Failed" if code else "Succeeded",
            runner_running=False,
            runner_end=ContainerEnd(code, reason),
            **changes,
        )
        if pod.deleting:
            self.vanish(key)

    def vanish(self, key: ObjectKey) -> None:
        """The pod object is gone."""
        pod = self.pods.pop(key)
        self._log(pod, deleted=True)

    def patch_approval(self, key: ObjectKey, **spec: Any) -> Approval:
        """A person decides."""
        approval = self.approvals[key]
        return self._store_approval(
            approval.model_copy(update={"spec": approval.spec.model_copy(update=spec)})
        )

    def drop_approval(self, key: ObjectKey) -> None:
        """Somebody deletes an approval."""
        self._log(self.approvals.pop(key), deleted=True)

    def _store_approval(self, approval: Approval) -> Approval:
        meta = approval.metadata.model_copy(update={"resource_version": str(self._next())})
        approval = approval.model_copy(update={"metadata": meta})
        self.approvals[ObjectKey(meta.namespace, meta.name)] = approval
        self._log(approval)
        return approval

    def secret_of(self, pod: PodView) -> AttemptSecret | None:
        """What the pod has mounted, if its Secret exists."""
        name = self.given[pod.uid]
        return self.secrets.get(ObjectKey(pod.key.namespace, name))

    # The port.

    async def list_runs(self) -> Sequence[AgentRun]:
        return list(self.runs.values())

    async def list_approvals(self) -> Sequence[Approval]:
        return list(self.approvals.values())

    async def list_pods(self) -> Sequence[PodView]:
        return [pod for pod in self.pods.values() if pod.run_uid is not None]

    async def get_run(self, key: ObjectKey) -> AgentRun:
        self.calls.append("get_run")
        return _found(self.runs, key)

    async def get_pod(self, key: ObjectKey) -> PodView:
        self.calls.append("get_pod")
        return _found(self.pods, key)

    async def get_approval(self, key: ObjectKey) -> Approval:
        self.calls.append("get_approval")
        return _found(self.approvals, key)

    async def get_config(self, key: ObjectKey, entry: str) -> str:
        self.calls.append("get_config")
        if (key, entry) not in self.configs:
            raise NotFound("no such object", attempted="get ConfigMap", on=str(key))
        return self.configs[(key, entry)]

    async def secret_exists(self, key: ObjectKey, entry: str) -> bool | None:
        return None if self.user_secrets is None else (key, entry) in self.user_secrets

    async def namespace_terminating(self, namespace: str) -> bool:
        self.calls.append("namespace_terminating")
        return namespace in self.terminating

    async def namespace_uid(self, namespace: str) -> str:
        self.calls.append("namespace_uid")
        return f"ns-{namespace}"

    async def create_pod(self, pod: AttemptPod) -> PodView:
        self.calls.append("create_pod")
        if pod.key.namespace in self.terminating:
            raise Forbidden("the namespace is being terminated")
        if self.refuse_pods is not None:
            raise self.refuse_pods
        if pod.key in self.pods:
            raise AlreadyExists(f"pod {pod.key} exists")
        uid = f"pod-uid-{self._next()}"
        made = PodView(
            key=pod.key,
            uid=uid,
            owner_uid=pod.run.metadata.uid,
            run_uid=pod.run_uid or pod.run.metadata.uid,
            fence=pod.fence,
            attempt=pod.attempt,
            installation=pod.installation,
            phase="Pending",
            node="n1",
            created_at=self.clock.wall(),
            deleting=False,
            runner_running=False,
            runner_end=None,
            waiting=None,
            evicted=False,
            disrupted=False,
        )
        self.pods[pod.key] = made
        self.given[uid] = pod.secret_name
        self.avoided[uid] = pod.avoid_node
        self.created.append((pod.run.metadata.uid, pod.fence, uid))
        self._log(made)
        return made

    async def delete_pod(self, key: ObjectKey, uid: str, grace_seconds: int | None = None) -> None:
        self.calls.append("delete_pod")
        pod = _found(self.pods, key)
        if pod.uid != uid:
            raise Conflict("another UID")
        if pod.phase in ("Pending", "Failed", "Succeeded"):
            self.vanish(key)
        else:
            self.set_pod(key, deleting=True)

    async def create_secret(self, secret: AttemptSecret) -> SecretView:
        self.calls.append("create_secret")
        if secret.key.namespace in self.terminating:
            raise Forbidden("the namespace is being terminated")
        if secret.key in self.secrets or secret.key.name in self.squatted:
            raise AlreadyExists(f"secret {secret.key} exists")
        self.secrets[secret.key] = secret
        return SecretView(
            secret.key, f"secret-{self._next()}", secret.run.metadata.uid, secret.fence
        )

    async def delete_attempt_secrets(self, run: AgentRun, keep: Sequence[str]) -> None:
        self.calls.append("delete_attempt_secrets")
        self.secrets = {
            key: secret
            for key, secret in self.secrets.items()
            if secret.run.metadata.uid != run.metadata.uid or key.name in keep
        }

    async def create_approval(self, approval: Approval) -> Approval:
        self.calls.append("create_approval")
        key = ObjectKey(approval.metadata.namespace, approval.metadata.name)
        if key in self.approvals:
            raise AlreadyExists(f"approval {key} exists")
        meta = approval.metadata.model_copy(update={"uid": f"approval-uid-{self._next()}"})
        return self._store_approval(approval.model_copy(update={"metadata": meta}))

    async def delete_approval(self, key: ObjectKey, uid: str) -> None:
        self.calls.append("delete_approval")
        approval = _found(self.approvals, key)
        if approval.metadata.uid != uid:
            raise Conflict("another UID")
        self.drop_approval(key)

    async def patch_run_status(self, run: AgentRun, status: AgentRunStatus) -> AgentRun:
        self.calls.append("patch_run_status")
        key = ObjectKey(run.metadata.namespace, run.metadata.name)
        current = _found(self.runs, key)
        if current.metadata.resource_version != run.metadata.resource_version:
            raise Conflict("the object has changed")
        meta = current.metadata.model_copy(update={"resource_version": str(self._next())})
        patched = current.model_copy(update={"metadata": meta, "status": status})
        self.runs[key] = patched
        self._log(patched)
        return patched

    async def patch_approval_status(self, approval: Approval, status: ApprovalStatus) -> Approval:
        self.calls.append("patch_approval_status")
        meta = approval.metadata
        current = _found(self.approvals, ObjectKey(meta.namespace, meta.name))
        if current.metadata.resource_version != meta.resource_version:
            raise Conflict("the object has changed")
        return self._store_approval(current.model_copy(update={"status": status}))

    async def delete_run(self, run: AgentRun) -> None:
        self.calls.append("delete_run")
        key = ObjectKey(run.metadata.namespace, run.metadata.name)
        if _found(self.runs, key).metadata.uid != run.metadata.uid:
            raise Conflict("another UID")
        self.remove(key)

    async def emit(self, event: ClusterEvent) -> None:
        self.events.append(event)

    async def changes(self) -> AsyncIterator[ObjectKey]:
        for key in ():
            yield key

    async def close(self) -> None:
        return

    @property
    def writes(self) -> list[str]:
        """API writes, Events aside."""
        return [call for call in self.calls if not call.startswith(("get_", "namespace_"))]


def _found(items: Mapping[ObjectKey, T], key: ObjectKey) -> T:
    if key not in items:
        raise NotFound(f"no {key}")
    return items[key]
