"""An operator's store, its runs, and their runners: what these tests act on."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import psycopg

from agentrun.run.identity import approval_request_id
from agentrun.run.values import LastWord, Question
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.operator_store import PostgresOperatorStore, open_operator_store
from agentrun.store.port import (
    Claim,
    NewAttempt,
    NewCommit,
    NewRun,
    Seen,
)
from agentrun.store.rows import Budgets, Requested, RunRow, RunState, TotalsRow
from agentrun.store.runner_store import open_runner_store
from agentrun.store.runner_store.facade import PostgresRunnerStore

OBJECT = "object-1"


def seen(row: RunRow, **changes: Any) -> Seen:
    """What an operator that looked at ``row`` has seen."""
    was = Seen(row.run_uid, row.object_uid, row.fence, row.seq, row.state, row.holder)
    return replace(was, **changes)


def commit(kind: str = "after_model", **fields: Any) -> NewCommit:
    """A boundary with a small body."""
    defaults: dict[str, Any] = {"ref": None, "codec": 0, "body": b"{}", "progress": True}
    return NewCommit(kind=kind, **{**defaults, **fields})


def question(run_uid: str, boundary: str = "main/1/1/0", ordinal: int = 1) -> Question:
    """A question about one call."""
    return Question(
        id=approval_request_id(run_uid, "Tool", boundary, ordinal),
        scope="Tool",
        boundary=boundary,
        ordinal=ordinal,
        content=b'{"tool":"ops.restart"}',
        content_hash="c0ffee" + "0" * 58,
        reason="restarts production",
    )


SUSPENDED = LastWord(RunState.SUSPENDED, "ApprovalPending", "waits for people")
SUCCEEDED = LastWord(RunState.SUCCEEDED, "", "done", preview="the answer")


def totals(turns: int = 0) -> TotalsRow:
    """Sums in which only the turns are told apart."""
    return TotalsRow(turns=turns)


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], what: str, within: float = 30.0
) -> None:
    """Poll until the condition holds. ``within`` only bounds how long a failure takes."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        result = condition()
        if await result if isinstance(result, Awaitable) else result:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never happened: {what}")


@dataclass
class World:
    """One installation on a server."""

    postgres: EmbeddedPostgres
    operator: PostgresOperatorStore
    installation: str
    runners: list[PostgresRunnerStore] = field(default_factory=list)

    @classmethod
    async def on(cls, postgres: EmbeddedPostgres) -> World:
        """An installation of its own, so that polls of other tests see nothing of it."""
        operator = await open_operator_store(postgres.dsn)
        return cls(postgres, operator, f"i-{uuid4()}")

    async def close(self) -> None:
        """Close every connection made."""
        await asyncio.gather(*(runner.close() for runner in self.runners))
        await self.operator.close()

    # Runs, in the states that tests begin from.

    def new_run(self, **changes: Any) -> NewRun:
        """What an object of the cluster is captured as."""
        base = NewRun(
            run_uid=str(uuid4()),
            object_uid=OBJECT,
            installation=self.installation,
            namespace_uid="namespace-1",
            namespace="team",
            name="incident",
            run_id="incident-42",
            spec=b'{"prompt":"look"}',
            spec_hash="5pec",
            generation=1,
            lease_ttl_ms=60_000,
            requested=Requested.RUN,
            requested_reason="",
            budgets=Budgets(),
        )
        return replace(base, **changes)

    async def pending(self, **changes: Any) -> RunRow:
        """A run that was never minted."""
        return await self.operator.open_run(self.new_run(**changes))

    def attempt(self, secret: bytes, pod: str = "pod") -> NewAttempt:
        """An attempt to mint with this secret."""
        return NewAttempt(
            secret_hash=hashlib.sha256(secret).digest(),
            trace_id=secrets.token_hex(16),
            span_id=secrets.token_hex(8),
            pod=pod,
            body=b'{"r":[]}',
            codec=0,
        )

    async def minted(self, **changes: Any) -> tuple[RunRow, bytes]:
        """A run whose first attempt is unclaimed, and its secret."""
        row = await self.pending(**changes)
        secret = secrets.token_bytes(32)
        minted = await self.operator.mint(seen(row), "start", self.attempt(secret), None)
        assert minted is not None
        return minted, secret

    def runner(
        self, row: RunRow, secret: bytes, *, holder: str = "pod-uid-1", **options: Any
    ) -> PostgresRunnerStore:
        """The store of a process of that attempt."""
        store = open_runner_store(
            options.pop("dsn", self.postgres.runner_dsn),
            run_uid=row.run_uid,
            fence=row.fence,
            secret=secret,
            holder=holder,
            **{"nonce": uuid4().hex, "ttl_hint": 6.0, **options},
        )
        self.runners.append(store)
        return store

    async def active(self, **changes: Any) -> tuple[PostgresRunnerStore, Claim]:
        """A run whose first attempt has claimed."""
        options = changes.pop("options", {})
        row, secret = await self.minted(**changes)
        runner = self.runner(row, secret, **options)
        return runner, await runner.claim()

    async def suspended(self, questions: int = 1, **changes: Any) -> RunRow:
        """A run that asked so many questions and gave its pod back; objects are bound."""
        runner, claim = await self.active(**changes)
        for index in range(questions):
            asked = question(claim.run_uid, f"main/1/1/{index}")
            await runner.append(commit("approval/request", approvals=(asked,)), totals(1))
        await runner.append(commit("run/suspend", progress=False), totals(1), end=SUSPENDED)
        run = claim.run_uid
        row = await self.row(run)
        for approval in row.pending_approvals:
            assert await self.operator.bind_approval(
                run, approval.id, f"object-of-{approval.id}", None
            )
        return await self.row(run)

    async def row(self, run_uid: str) -> RunRow:
        """The run as an operator sees it."""
        found = await self.operator.run(run_uid)
        assert found is not None
        return found

    async def decide(
        self,
        row: RunRow,
        index: int = 0,
        *,
        decision: str = "Approve",
        mint: bool = True,
        operator: PostgresOperatorStore | None = None,
        **changes: Any,
    ) -> RunRow | None:
        """Decide the ``index``-th pending question of ``row``."""
        approval = row.pending_approvals[index]
        arguments: dict[str, Any] = {
            "seen": seen(row),
            "approval_id": approval.id,
            "approval_object_uid": approval.object_uid,
            "decision": decision,
            "decided_by": "alice",
            "content_hash": approval.content_hash,
            "codec": 0,
            "body": b"{}",
            "new": self.attempt(secrets.token_bytes(32)) if mint else None,
        }
        return await (operator or self.operator).decide(**{**arguments, **changes})

    def expire(self, sql: psycopg.Connection, run_uid: str) -> None:
        """Let a lease run out without waiting for it."""
        sql.execute(
            "UPDATE agentrun.run SET lease_expires_at = clock_timestamp() - interval '1 s'"
            " WHERE run_uid = %s",
            (run_uid,),
        )
