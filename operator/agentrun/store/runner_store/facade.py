"""The async face of the store thread, for one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from agentrun.errors import StoreError, StoreRefused
from agentrun.run.values import LastWord
from agentrun.store.port import Claim, Control, NewCommit, Restored
from agentrun.store.rows import TotalsRow
from agentrun.store.runner_store import jobs
from agentrun.store.runner_store.engine import Ambient, Engine, Listener
from agentrun.store.runner_store.hold import Hold
from agentrun.store.runner_store.jobs import Execute, Job
from agentrun.store.runner_store.ledger import Entry

T = TypeVar("T")


def open_runner_store(
    dsn: str,
    *,
    run_uid: str,
    fence: int,
    secret: bytes,
    holder: str,
    nonce: str,
    node: str | None = None,
    ttl_hint: float = 60.0,
    stall_seconds: float | None = None,
    idle_seconds: float = 5.0,
    ambient: Ambient | None = None,
) -> PostgresRunnerStore:
    """One attempt's hold on its run. Connects with the first call; call it inside the event loop.

    ``secret`` is the raw attempt secret, ``holder`` the pod's UID, ``nonce`` made afresh by this
    process. ``ttl_hint`` bounds statements until the claim has told the real TTL.
    ``stall_seconds``: without ``mark_progress`` for longer, the lease is not renewed. The connection
    is closed after ``idle_seconds`` without use: a thousand waiting pods hold no connections.
    """
    hold = Hold(run_uid, fence, secret, holder, nonce, node)
    return PostgresRunnerStore(
        dsn,
        hold,
        ttl=ttl_hint,
        stall_seconds=stall_seconds,
        idle_seconds=idle_seconds,
        ambient=ambient or Ambient(),
    )


class PostgresRunnerStore:
    """Implements :class:`agentrun.store.port.RunnerStore`."""

    def __init__(
        self,
        dsn: str,
        hold: Hold,
        *,
        ttl: float,
        stall_seconds: float | None,
        idle_seconds: float,
        ambient: Ambient,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = ambient.clock
        self._hold = hold
        self._ttl = ttl
        self._news: set[asyncio.Future[None]] = set()
        listener = Listener(control=self._tell_news, lost=self._tell_news)
        self._engine = Engine(
            dsn,
            hold,
            ttl=ttl,
            stall_seconds=stall_seconds,
            idle_seconds=idle_seconds,
            ambient=ambient,
            listener=listener,
        )

    async def claim(self) -> Claim:
        """Become the holder; repeated through outages by the nonce (H17)."""
        return await self._ask("claim", self._engine.claim)

    async def restore(self) -> Restored:
        """The record, verified, in one query."""
        return await self._ask("restore", partial(jobs.restore, self._hold))

    async def blobs(self, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Contents by sha256, verified."""
        return await self._ask("read blobs", partial(jobs.get_blobs, self._hold, hashes))

    async def append(
        self, commit: NewCommit, totals: TotalsRow, *, end: LastWord | None = None
    ) -> int:
        """Queue a boundary and wait until it is durable. It is written even if the wait is
        cancelled: what was handed over is not taken back."""
        if self._engine.lease.control is None:
            raise StoreRefused("nothing was claimed yet", attempted="append", on=str(self._hold))
        future: asyncio.Future[int] = self._loop.create_future()

        def done(result: int | StoreError) -> None:
            self._post(_resolve, future, result)

        self._engine.append(Entry(commit, totals, end, self._clock(), done))
        return await future

    async def snapshot(
        self,
        version: int,
        seq: int,
        codec: int,
        body: bytes,
        blobs: Mapping[str, bytes] | None = None,
    ) -> None:
        """Write a snapshot when nothing else waits. Given up at the first outage: it is a help,
        and the next one will do."""

        def write(execute: Execute) -> None:
            jobs.put_blobs(self._hold, blobs or {}, execute)
            jobs.snapshot(self._hold, version, seq, codec, body, execute)

        await self._ask("write a snapshot", write, patience=0.0, urgent=False)

    async def release(self) -> None:
        """End the lease; the holder stays."""
        await self._ask("release", self._engine.release, patience=self._ttl / 6)

    def control(self) -> Control:
        """What the operator wants, by the latest answer. Raises what ended the hold, once it has ended."""
        if self._engine.lost is not None:
            raise self._engine.lost
        control = self._engine.lease.control
        if control is None:
            raise StoreRefused("nothing was claimed yet", attempted="read what the operator wants")
        return control

    async def control_changed(self, known: Control) -> Control:
        """Wait until that differs from ``known``; raises what ended the hold."""
        while True:
            future: asyncio.Future[None] = self._loop.create_future()
            self._news.add(future)
            try:
                latest = self.control()
                if latest != known:
                    return latest
                await future
            finally:
                self._news.discard(future)

    def lease_age(self) -> float:
        """Seconds since the last answered renewal was sent; 0 before the claim."""
        answered = self._engine.lease.answered
        return 0.0 if answered is None else self._clock() - answered

    def uncommitted_age(self) -> float:
        """Seconds that the oldest commit has been waiting to land; 0 without one."""
        oldest = self._engine.ledger.oldest()
        return 0.0 if oldest is None else self._clock() - oldest

    def mark_progress(self) -> None:
        """The main loop lives."""
        self._engine.mark_progress()

    async def close(self) -> None:
        """End thread and connection; what waits is given up. Nothing is released."""
        self._engine.close()
        await asyncio.to_thread(self._engine.join)

    async def _ask(
        self,
        name: str,
        run: Callable[[Execute], T],
        *,
        patience: float | None = None,
        urgent: bool = True,
    ) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        waits = self._engine.lease.ttl if patience is None else patience
        job = Job(
            name,
            run,
            done=lambda result: self._post(_resolve, future, result),
            failed=lambda error: self._post(_resolve, future, error),
            give_up_at=self._clock() + waits,
            urgent=urgent,
        )
        self._engine.submit(job)
        return await future

    def _tell_news(self) -> None:
        self._post(self._wake)

    def _wake(self) -> None:
        for future in self._news:
            _resolve(future, None)

    def _post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run something on the loop. A loop that has ended needs to be told nothing."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


def _resolve(future: asyncio.Future[Any], result: object) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
