"""The store thread of an attempt: one connection, one statement at a time.

It does appends, renewals and everything else from a queue, so a busy or blocked event loop starves
nothing: the lease is renewed as long as the process lives and the main loop marks progress. An
outage is waited out with back-off; what waits stays queued until it has landed or cannot.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import LiteralString
from uuid import UUID, uuid4

from agentrun.errors import (
    AgentRunError,
    Fenced,
    StoreError,
    StoreRefused,
    StoreRegressed,
    StoreUnavailable,
)
from agentrun.store.boottime import boottime
from agentrun.store.failures import translate
from agentrun.store.port import Claim, Control
from agentrun.store.runner_store import jobs
from agentrun.store.runner_store.appending import Verdict, judge, regressed, statement
from agentrun.store.runner_store.hold import Answer, Hold
from agentrun.store.runner_store.jobs import Job, Rows
from agentrun.store.runner_store.ledger import Entry, Group, Ledger
from agentrun.store.runner_store.wire import Wire

_FIRST_BACKOFF = 0.05
_JOIN_SECONDS = 3.0
_PATIENCE = 32
"""After so many appends in a row, one snapshot goes first: a busy run needs them most."""


@dataclass(frozen=True, slots=True)
class Ambient:
    """Where the runner store touches the world: clock, randomness, ids. Replaced by tests."""

    clock: Callable[[], float] = boottime
    jitter: Callable[[], float] = random.random
    new_id: Callable[[], UUID] = uuid4


@dataclass(slots=True)
class Lease:
    """What is known about the lease. Times are of the boot clock, taken before sending."""

    ttl: float
    answered: float | None = None
    """When the last statement that extended it was sent."""
    renewing: bool = False
    control: Control | None = None


@dataclass(slots=True)
class Listener:
    """What the thread tells the other side. Called on the store thread."""

    control: Callable[[], None] = field(default=lambda: None)
    lost: Callable[[], None] = field(default=lambda: None)


class Engine:
    """Owned by one façade. ``submit`` and ``append`` may be called from any thread."""

    def __init__(
        self,
        dsn: str,
        hold: Hold,
        *,
        ttl: float,
        stall_seconds: float | None,
        idle_seconds: float,
        ambient: Ambient,
        listener: Listener,
    ) -> None:
        self.hold = hold
        self.lease = Lease(ttl)
        self.lost: StoreError | None = None
        self.progress_at = ambient.clock()
        self.ledger = Ledger(ambient.new_id)
        self.wire = Wire(dsn, f"agentrun {hold.run_uid[:36]}/{hold.fence}", ambient.clock)
        self._ambient = ambient
        self._stall = stall_seconds
        self._idle = idle_seconds
        self._listener = listener
        self._jobs: deque[Job] = deque()
        self._later: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._retry_at = 0.0
        self._failures = 0
        self._job_turn = False
        self._appended = 0
        self._control_columns: tuple[object, ...] = ()
        self._used_at = 0.0
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    # Called from other threads.

    def append(self, entry: Entry) -> None:
        """Queue a commit."""
        with self._changed:
            if self.lost is None and not self._closing:
                self.ledger.waiting.append(entry)
                self._changed.notify()
                return
        entry.done(self.lost or self._closed())

    def submit(self, job: Job) -> None:
        """Queue anything else."""
        with self._changed:
            if not self._closing:
                (self._jobs if job.urgent else self._later).append(job)
                self._changed.notify()
                return
        job.failed(self._closed())

    def mark_progress(self) -> None:
        """The main loop lives; a renewal that was held back for want of it is due at once."""
        now = self._ambient.clock()
        stalled = self._stalled(now)
        self.progress_at = now
        if stalled:
            with self._changed:
                self._changed.notify()

    def close(self) -> None:
        """End the thread. What waits is given up; a running statement gets a second."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self.wire.hurry(1.0)

    def join(self) -> None:
        """Wait for the thread's end, but not for a connect that a dead host keeps waiting."""
        self._thread.join(_JOIN_SECONDS)

    # The store thread.

    def _run(self) -> None:
        try:
            while work := self._choose():
                work()
        except Exception as error:  # nobody may wait for a thread that has died
            self._lose(StoreRefused(f"the store thread failed: {type(error).__name__}"))
            raise
        finally:
            self._end()

    def _end(self) -> None:
        with self._changed:
            self._closing = True
        self.ledger.fail(self.lost or self._closed())
        for job in (*self._jobs, *self._later):
            job.failed(self._closed())
        self.wire.close()

    def _choose(self) -> Callable[[], None] | None:
        """Wait for something to do. None: the end."""
        with self._changed:
            while not self._closing:
                now = self._ambient.clock()
                pause: float | None = self._retry_at - now
                if self._retry_at <= now:
                    work = self._due(now)
                    if work is not None:
                        return work
                    pause = self._next_event(now)
                self._changed.wait(pause)
        return None

    def _due(self, now: float) -> Callable[[], None] | None:
        if self._renewal_due(now):
            return self._renew
        job_first = self._job_turn or not self.ledger.waiting
        if self._jobs and job_first:
            return self._work(self._jobs)
        if self._later and self._appended >= _PATIENCE:
            return self._work(self._later)
        if self.ledger.waiting:
            return self._append
        if self._later:
            return self._work(self._later)
        if self.wire.connection is not None and now >= self._used_at + self._idle:
            return self.wire.disconnect
        return None

    def _next_event(self, now: float) -> float | None:
        times = []
        if self.wire.connection is not None:
            times.append(self._used_at + self._idle)
        if self.lease.renewing and self.lease.answered is not None and not self._stalled(now):
            times.append(self.lease.answered + self.lease.ttl / 3)
        return max(0.001, min(times) - now) if times else None

    def _renewal_due(self, now: float) -> bool:
        lease = self.lease
        return (
            lease.renewing
            and lease.answered is not None
            and now >= lease.answered + lease.ttl / 3
            and not self._stalled(now)
        )

    def _stalled(self, now: float) -> bool:
        return self._stall is not None and now - self.progress_at > self._stall

    def _work(self, queue: deque[Job]) -> Callable[[], None]:
        def do() -> None:
            self._job_turn = False
            self._appended = 0
            job = queue[0]
            try:
                result = job.run(self._execute)
            except Exception as error:  # noqa: BLE001 - handed to whoever asked
                told = self._heard(error, job.name)
                if isinstance(told, StoreUnavailable) and self._ambient.clock() < job.give_up_at:
                    return
                queue.popleft()
                job.failed(told)
            else:
                queue.popleft()
                self._failures = 0
                job.done(result)

        return do

    def claim(self, execute: jobs.Execute) -> Claim:
        """Become the holder. From here on the lease is renewed."""
        sent = self._ambient.clock()
        claim = jobs.claim(self.hold, execute)
        if not self.lease.renewing:
            self.ledger.seq = claim.seq
        self.lease.ttl = claim.lease_ttl_ms / 1000
        self.lease.answered = sent
        self._controlled(claim.control)
        self.lease.renewing = True
        return claim

    def release(self, execute: jobs.Execute) -> None:
        """End the lease and stop renewing it."""
        self.lease.renewing = False
        jobs.release(self.hold, execute)

    def _renew(self) -> None:
        sent = self._ambient.clock()
        try:
            answer = jobs.renew(self.hold, self._execute)
        except Exception as error:  # noqa: BLE001 - told by lease_age, or by being lost
            told = self._heard(error, "renew the lease")
            if not isinstance(told, StoreUnavailable):
                self._lose(_as_store_error(told))
            return
        self._failures = 0
        if answer.ok and answer.seq is not None and answer.seq < self.ledger.seq:
            self._lose(regressed(self.hold, answer.seq, self.ledger.seq))
        elif answer.ok:
            self._extended(sent, answer)
            self._recognise(answer)
        else:
            self._settle(answer)

    def _append(self) -> None:
        self._job_turn = True
        self._appended += 1
        entries = self.ledger.take()
        for entry in entries:
            if not entry.blobs_put and not self._put_blobs(entry):
                return
        group = self.ledger.send(entries)
        sent = self._ambient.clock()
        try:
            answer = Answer(*self._execute(*statement(self.hold, group))[0])
        except Exception as error:  # noqa: BLE001 - told to the culprit
            told = self._heard(error, "append")
            if not isinstance(told, StoreUnavailable):
                self.ledger.refused(group, _as_store_error(told))
            return
        self._failures = 0
        if answer.ok:
            self._extended(sent, answer)
            self._landed(group)
        else:
            self._settle(answer)

    def _put_blobs(self, entry: Entry) -> bool:
        try:
            jobs.put_blobs(self.hold, entry.commit.blobs, self._execute)
        except Exception as error:  # noqa: BLE001 - told to the culprit
            told = self._heard(error, "put a blob")
            if isinstance(told, (Fenced, StoreRegressed)):
                self._lose(told)
            elif not isinstance(told, StoreUnavailable):
                self.ledger.drop(entry, _as_store_error(told))
            return False
        entry.blobs_put = True
        return True

    def _settle(self, answer: Answer) -> None:
        """An answer that is not ok: landed before, or nothing will land any more."""
        verdict = judge(self.hold, self.ledger, answer)
        if verdict is Verdict.LANDED:
            self._recognise(answer)
        elif isinstance(verdict, StoreError):
            self._lose(verdict)
        else:
            self._back_off()

    def _recognise(self, answer: Answer) -> None:
        """One of our write ids in the row: that statement took effect, its answer was lost."""
        if answer.write_id in self.ledger.unresolved:
            self._landed(self.ledger.unresolved[answer.write_id])

    def _landed(self, group: Group) -> None:
        if group.entries[-1].end is not None:
            self.lease.renewing = False
        self.ledger.landed(group)

    def _extended(self, sent: float, answer: Answer) -> None:
        self.lease.answered = sent
        if answer.control_columns() != self._control_columns:
            self._control_columns = answer.control_columns()
            self._controlled(answer.control())

    def _controlled(self, control: Control) -> None:
        if control != self.lease.control:
            self.lease.control = control
            self._listener.control()

    def _lose(self, error: StoreError) -> None:
        with self._changed:
            self.lost = error
        self.lease.renewing = False
        self.ledger.fail(error)
        self._listener.lost()

    def _heard(self, error: Exception, attempted: str) -> Exception:
        """An error as the caller is told it; an outage also makes the thread wait a while."""
        if isinstance(error, AgentRunError):
            return error
        told = translate(error, attempted, str(self.hold), self.wire.connection)
        told.__cause__ = error
        if isinstance(told, StoreUnavailable):
            self._back_off()
        return told

    def _back_off(self) -> None:
        longest = min(5.0, self.lease.ttl / 12)
        pause = min(longest, _FIRST_BACKOFF * 2 ** min(self._failures, 10))
        self._failures += 1
        self._retry_at = self._ambient.clock() + pause * (0.5 + self._ambient.jitter())

    def _execute(self, sql: LiteralString, parameters: jobs.Parameters) -> Rows:
        try:
            return self.wire.execute(sql, parameters, self.lease.ttl / 6)
        finally:
            self._used_at = self._ambient.clock()

    def _closed(self) -> StoreUnavailable:
        return StoreUnavailable("the store was closed", on=str(self.hold))


def _as_store_error(error: Exception) -> StoreError:
    return error if isinstance(error, StoreError) else StoreRefused(str(error))
