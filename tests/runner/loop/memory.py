"""The store in memory: the same promises as the one in Postgres, and switches to break them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.runner.loop.virtual import now

from agentrun.api import AgentRunSpec
from agentrun.errors import CheckpointCorrupt, Fenced, StoreError, StoreRefused
from agentrun.run import chain, codec
from agentrun.run.capture import Resolved, capture
from agentrun.run.fold import fold
from agentrun.run.records import (
    ApprovalDecision,
    AttemptStart,
    Json,
    Record,
    RunStart,
    TraceLink,
)
from agentrun.run.state import State
from agentrun.run.values import LastWord, Question
from agentrun.store.port import Claim, Control, NewCommit, Restored
from agentrun.store.rows import (
    Budgets,
    CommitRow,
    Requested,
    RunState,
    SnapshotRow,
    TotalsRow,
)

UID = "7f3a0000-0000-4000-8000-000000000001"
AT = datetime(2026, 1, 1, tzinfo=UTC)
TTL = 60.0

Point = Callable[[str], Awaitable[None]]


@dataclass
class Database:
    """One run's rows, and the operator's hand on them."""

    spec: AgentRunSpec
    state: RunState = RunState.PENDING
    reason: str = ""
    message: str = ""
    preview: str = ""
    wait_ms: int = 0
    attempt: int = 0
    fence: int = 0
    holder: str | None = None
    nonce: str | None = None
    seq: int = 0
    chain: bytes = field(default_factory=lambda: chain.genesis(UID))
    commits: list[CommitRow] = field(default_factory=list)
    progress: list[bool] = field(default_factory=list)
    snapshots: list[SnapshotRow] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    refs: set[str] = field(default_factory=set)
    approvals: dict[str, Question] = field(default_factory=dict)
    totals: TotalsRow = field(default_factory=TotalsRow)
    requested: Requested = Requested.RUN
    requested_reason: str = ""
    budgets: Budgets = field(default_factory=Budgets)
    released: bool = False
    up: bool = True
    """Whether the database answers."""
    refuse: Callable[[NewCommit], bool] = lambda commit: False
    """Commits that are refused for good."""
    came_back: asyncio.Event = field(default_factory=asyncio.Event)

    def mint(self) -> Database:
        """The operator starts the next attempt."""
        self.attempt += 1
        self.fence += 1
        self.holder = self.nonce = None
        self.released = False
        self.state = RunState.ACTIVE
        records: list[Record] = []
        link = None
        if self.attempt == 1:
            hashed = capture(self.spec, Resolved()).spec_hash
            records.append(RunStart(run_uid=UID, mode="prompt", spec_hash=hashed))
        else:
            link = TraceLink(
                attempt=self.attempt - 1,
                trace_id=f"{self.attempt - 1:032x}",
                span_id=f"{self.attempt - 1:016x}",
                seq=self.seq,
            )
        start = AttemptStart(
            attempt=self.attempt,
            fence=self.fence,
            trace_id=f"{self.attempt:032x}",
            span_id=f"{self.attempt:016x}",
            continued_from=link,
        )
        self.operator([*records, start])
        return self

    def operator(self, records: Sequence[Record]) -> None:
        """A commit of the operator's."""
        encoded = codec.encode(records)
        self.land("O", NewCommit("attempt/start", None, encoded.codec, encoded.body, False))

    def decide(self, decision: str, reason: str = "") -> None:
        """Decide every open question, as the operator does when a person has answered."""
        assert self.state is RunState.SUSPENDED
        answered = {id_ for id_, a in self.folded().approvals.items() if a.decision is not None}
        for id_ in self.approvals.keys() - answered:
            self.operator(
                [ApprovalDecision(id=id_, decision=decision, decided_by="ann", reason=reason)]
            )

    def land(self, origin: str, commit: NewCommit) -> int:
        self.seq += 1
        self.chain = chain.link(
            self.chain, self.seq, origin, commit.kind, commit.ref, commit.codec, commit.body
        )
        self.commits.append(
            CommitRow(
                self.seq,
                origin,
                self.fence,
                self.attempt,
                AT,
                commit.kind,
                commit.ref,
                commit.codec,
                self.chain,
                commit.body,
            )
        )
        self.progress.append(commit.progress)
        self.blobs.update(commit.blobs)
        self.approvals.update({new.id: new for new in commit.approvals})
        if commit.ref is not None:
            self.refs.add(commit.ref)
        return self.seq

    def take_away(self) -> None:
        """The database stops answering."""
        self.up = False
        self.came_back.clear()

    def give_back(self) -> None:
        """It answers again."""
        self.up = True
        self.came_back.set()

    def fence_off(self) -> None:
        """Somebody else owns the run now."""
        self.fence += 1

    def records(self) -> list[Record]:
        """Everything that was committed, in order."""
        return [
            record
            for commit in self.commits
            for record in codec.decode(commit.codec, commit.body, self.blobs)
        ]

    def folded(self) -> State:
        """The state of the record, from its beginning."""
        state = State()
        for commit in self.commits:
            fold(state, commit.origin, codec.decode(commit.codec, commit.body, self.blobs))
        return state

    @property
    def kinds(self) -> list[str]:
        """Kinds of the runner's commits."""
        return [commit.kind for commit in self.commits if commit.origin == "R"]

    @property
    def transcript(self) -> list[Json]:
        """The main conversation."""
        return self.folded().conversations["main"].messages


class MemoryStore:
    """One attempt's hold, as :class:`agentrun.store.port.RunnerStore` promises it."""

    def __init__(self, database: Database, point: Point) -> None:
        self._db = database
        self._point = point
        self._fence = database.fence
        self._line = asyncio.Lock()
        self._queued: list[float] = []
        self._answered: float | None = None
        self.nonce = object()
        self.progress_marks = 0
        self.renewing = True
        self.snapshot_gate: asyncio.Event | None = None
        self.lost: StoreError | None = None
        self.closed = False
        self.stuck = False
        self.looks = 0
        self.stall = 900.0

    async def claim(self) -> Claim:
        await self._answer()
        db = self._db
        if db.fence != self._fence or db.holder not in (None, str(id(self.nonce))):
            raise Fenced("not ours")
        db.holder = str(id(self.nonce))
        self._answered = now()
        captured = capture(db.spec, Resolved())
        return Claim(
            run_uid=UID,
            object_uid=UID,
            namespace="default",
            name="incident",
            run_id=UID,
            spec=captured.spec,
            spec_hash=captured.spec_hash,
            attempt=db.attempt,
            fence=db.fence,
            seq=db.seq,
            snapshot_seq=db.snapshots[-1].seq if db.snapshots else 0,
            chain=db.chain,
            trace_id=f"{db.attempt:032x}",
            span_id=f"{db.attempt:016x}",
            lease_ttl_ms=int(TTL * 1000),
            control=self._control(),
            active_ms=0,
        )

    async def restore(self) -> Restored:
        await self._answer()
        snapshot = self._db.snapshots[-1] if self._db.snapshots else None
        after = snapshot.seq if snapshot else 0
        return Restored(snapshot, tuple(self._db.commits[after:]))

    async def blobs(self, hashes: Sequence[str]) -> Mapping[str, bytes]:
        await self._answer()
        if any(name not in self._db.blobs for name in hashes):
            raise CheckpointCorrupt("a blob is missing")
        return {name: self._db.blobs[name] for name in hashes}

    async def append(
        self, commit: NewCommit, totals: TotalsRow, *, end: LastWord | None = None
    ) -> int:
        queued = now()
        self._queued.append(queued)
        try:
            async with self._line:
                return await self._append(commit, totals, end)
        finally:
            self._queued.remove(queued)

    async def _append(self, commit: NewCommit, totals: TotalsRow, end: LastWord | None) -> int:
        await self._point(f"before {commit.kind}")
        await self._answer()
        while self.stuck:
            await asyncio.Event().wait()
        db = self._db
        if db.fence != self._fence:
            self.lost = Fenced("the fence has moved")
            raise self.lost
        if db.state is not RunState.ACTIVE:
            raise StoreRefused(f"the run is {db.state}")
        if (commit.ref is not None and commit.ref in db.refs) or db.refuse(commit):
            raise StoreRefused("refused for good")
        for name, content in commit.blobs.items():
            assert hashlib.sha256(content).hexdigest() == name
        seq = db.land("R", commit)
        db.totals = totals
        if end is not None:
            db.state, db.reason, db.message = RunState(end.state), end.reason, end.message
            db.preview, db.wait_ms = end.preview, end.wait_ms
        self._answered = now()
        await self._point(f"after {commit.kind}")
        return seq

    async def snapshot(
        self,
        version: int,
        seq: int,
        codec: int,
        body: bytes,
        blobs: Mapping[str, bytes] | None = None,
    ) -> None:
        await self._answer()
        self._db.blobs.update(blobs or {})
        if self.snapshot_gate is not None:
            await self.snapshot_gate.wait()
        if self._db.fence != self._fence:
            raise Fenced("the fence has moved")
        row = SnapshotRow(seq, version, self._db.commits[seq - 1].chain, codec, body)
        self._db.snapshots.append(row)

    async def release(self) -> None:
        await self._answer()
        self._db.released = True

    def control(self) -> Control:
        self.looks += 1
        if self.lost is None and self._db.up and self._db.fence != self._fence:
            self.lost = Fenced("told by a renewal")
        if self.lost is not None:
            raise self.lost
        return self._control()

    async def control_changed(self, known: Control) -> Control:
        """As a renewal would tell it, every third of the TTL."""
        await asyncio.sleep(TTL / 3)
        latest = self.control()
        return latest if latest != known else await self.control_changed(known)

    def lease_age(self) -> float:
        if self._db.up and self.renewing:
            self._answered = now()
        return 0.0 if self._answered is None else now() - self._answered

    def uncommitted_age(self) -> float:
        return now() - min(self._queued) if self._queued else 0.0

    def mark_progress(self) -> None:
        self.progress_marks += 1

    async def close(self) -> None:
        self.closed = True

    def _control(self) -> Control:
        db = self._db
        return Control(db.requested, db.requested_reason, db.budgets, int(TTL * 1000))

    async def _answer(self) -> None:
        """A round trip, or a wait for the database to come back."""
        await asyncio.sleep(0)
        while not self._db.up:
            await self._db.came_back.wait()
