"""The operator's side of the store: :class:`agentrun.store.port.OperatorStore` on Postgres.

Every method is one statement of its own transaction. No row back means that the facts have moved.
A statement whose answer is lost raises StoreUnavailable; the operator is level-triggered, so it
observes again and finds out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import psycopg
from psycopg.rows import RowFactory, dict_row, tuple_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from agentrun.errors import StoreUnavailable
from agentrun.store.chained import check_blobs, check_commits, check_head
from agentrun.store.failures import translate
from agentrun.store.migrate import check_version
from agentrun.store.port import AttemptEnd, NewAttempt, NewRun, Restored, Seen
from agentrun.store.reading import run_row
from agentrun.store.rows import Budgets, CommitRow, Requested, RunRow, RunState
from agentrun.store.sql import load

SQL = load("operator.sql")

_Pool = AsyncConnectionPool[psycopg.AsyncConnection[Any]]


async def open_operator_store(
    dsn: str, *, connections: int = 5, deadline: float = 10.0
) -> PostgresOperatorStore:
    """A pool of at most ``connections``; no statement outlives ``deadline`` seconds.

    Does not wait for Postgres: ``ping`` says whether it can be used.
    """
    pool: _Pool = AsyncConnectionPool(
        dsn,
        min_size=0,
        max_size=connections,
        max_idle=60.0,
        timeout=deadline,
        reconnect_timeout=deadline,
        open=False,
        name="store",
        kwargs={
            "autocommit": True,
            "prepare_threshold": None,
            "connect_timeout": max(2, round(deadline)),
            "application_name": "agentrun operator",
            "target_session_attrs": "read-write",
        },
    )
    await pool.open()
    return PostgresOperatorStore(pool, deadline)


class PostgresOperatorStore:
    """Implements :class:`agentrun.store.port.OperatorStore`."""

    def __init__(self, pool: _Pool, deadline: float) -> None:
        self._pool = pool
        self._deadline = deadline

    async def open_run(self, new: NewRun) -> RunRow:
        """The row of this object, made (Pending) if it is not there."""
        row = await self._act(
            "open_run",
            run_uid=new.run_uid,
            object_uid=new.object_uid,
            installation=new.installation,
            namespace_uid=new.namespace_uid,
            namespace=new.namespace,
            name=new.name,
            run_id=new.run_id,
            spec=new.spec,
            spec_hash=new.spec_hash,
            generation=new.generation,
            lease_ttl_ms=new.lease_ttl_ms,
            requested=str(new.requested),
            requested_reason=new.requested_reason,
            **_budgets(new.budgets),
        )
        if row is None:
            raise StoreUnavailable(
                "the row vanished", attempted="open_run", on=f"run {new.run_uid}"
            )
        return row

    async def run(self, run_uid: str) -> RunRow | None:
        """One run with its pending approvals and last attempts."""
        return await self._act("run", run_uid=run_uid)

    async def live(self, installation: str) -> tuple[RunRow, ...]:
        """All Active rows, without spec and lists."""
        rows = await self._query("live", installation, dict_row, installation=installation)
        if any(row["read_only"] for row in rows):
            raise StoreUnavailable(
                "it is read-only: nobody can renew a lease", attempted="live", on=installation
            )
        return tuple(run_row(row) for row in rows)

    async def unfinished(self, installation: str) -> tuple[RunRow, ...]:
        """All rows that are not over, without spec and lists."""
        rows = await self._query("unfinished", installation, dict_row, installation=installation)
        return tuple(run_row(row) for row in rows)

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
        """Write what is wanted of the run."""
        return await self._act(
            "request",
            run_uid=run_uid,
            object_uid=object_uid,
            generation=generation,
            requested=str(requested),
            reason=reason,
            by=by,
            **_budgets(budgets),
        )

    async def mint(
        self, seen: Seen, because: str, new: NewAttempt, end: AttemptEnd | None
    ) -> RunRow | None:
        """The next attempt."""
        return await self._act("mint", **_seen(seen), because=because, **asdict(new), **_ended(end))

    async def add_secret(self, seen: Seen, secret_hash: bytes) -> RunRow | None:
        """One more secret for the current unclaimed fence."""
        return await self._act("add_secret", **_seen(seen), secret_hash=secret_hash)

    async def charge(self, seen: Seen, end: AttemptEnd, backoff_ms: int) -> RunRow | None:
        """Record the end of the seen attempt and count its fault."""
        return await self._act("charge", **_seen(seen), **_ended(end), backoff_ms=backoff_ms)

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
        """The operator's own outcome."""
        return await self._act(
            "finish",
            **_seen(seen),
            outcome=str(state),
            reason=reason,
            message=message,
            codec=codec,
            body=body,
            **_ended(end),
        )

    async def suspend(
        self, seen: Seen, reason: str, message: str, codec: int, body: bytes, end: AttemptEnd | None
    ) -> RunRow | None:
        """Suspended by the operator."""
        return await self._act(
            "suspend",
            **_seen(seen),
            reason=reason,
            message=message,
            codec=codec,
            body=body,
            **_ended(end),
        )

    async def revoke(self, run_uid: str, object_uid: str, reason: str) -> RunRow | None:
        """The object is gone."""
        return await self._act("revoke", run_uid=run_uid, object_uid=object_uid, reason=reason)

    async def bind_approval(
        self, run_uid: str, approval_id: str, object_uid: str, seen_object_uid: str | None
    ) -> bool:
        """Remember which object stands for the question."""
        rows = await self._query(
            "bind_approval",
            f"run {run_uid}",
            tuple_row,
            run_uid=run_uid,
            id=approval_id,
            object_uid=object_uid,
            seen_object_uid=seen_object_uid,
        )
        return bool(rows[0][0])

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
        """Consume a decision, and mint if nothing is left to wait for."""
        return await self._act(
            "decide",
            **_seen(seen),
            id=approval_id,
            approval_object_uid=approval_object_uid,
            decision=decision,
            decided_by=decided_by,
            content_hash=content_hash,
            codec=codec,
            body=body,
            secret_hash=new.secret_hash if new else None,
            trace_id=new.trace_id if new else None,
            span_id=new.span_id if new else None,
            pod=new.pod if new else None,
            new_codec=new.codec if new else None,
            new_body=new.body if new else None,
        )

    async def commits(self, run_uid: str, after: int = 0) -> Restored:
        """All commits after ``after``, verified to the head. No such run: none."""
        rows = await self._query("commits", run_uid, tuple_row, run_uid=run_uid, after=after)
        if not rows:
            return Restored(None, ())
        head_seq, head_chain = rows[0][0], rows[0][1]
        found = [CommitRow(*row[2:]) for row in rows if row[2] is not None]
        anchor = found.pop(0).chain if after > 0 and found and found[0].seq == after else None
        chain = check_commits(run_uid, found, after=after, previous=anchor)
        last = found[-1].seq if found else after
        check_head(run_uid, seq=last, chain=chain, head_seq=head_seq, head_chain=head_chain)
        return Restored(None, tuple(found))

    async def blobs(self, run_uid: str, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Contents by sha256, verified."""
        if not hashes:
            return {}
        wanted = [bytes.fromhex(name) for name in dict.fromkeys(hashes)]
        rows = await self._query("blobs", run_uid, tuple_row, run_uid=run_uid, hashes=wanted)
        return check_blobs(run_uid, hashes, ((row[0], row[1]) for row in rows))

    async def purge_secrets(self, run_uid: str) -> None:
        """Forget secrets that nobody may use any more."""
        await self._query("purge_secrets", run_uid, tuple_row, run_uid=run_uid)

    async def ping(self) -> None:
        """StoreUnavailable, or SchemaMismatch, or nothing."""
        rows = await self._query("version", "the database", tuple_row)
        check_version(int(rows[0][0]))

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def _act(self, statement: str, /, **parameters: Any) -> RunRow | None:
        on = f"run {parameters['run_uid']}"
        rows = await self._query(statement, on, dict_row, **parameters)
        return run_row(rows[0]) if rows else None

    async def _query(
        self, statement: str, on: str, factory: RowFactory[Any], /, **parameters: Any
    ) -> list[Any]:
        """Run one named statement, again on another connection if this one turns out to be dead.

        After a restart of the server every pooled connection is. Whatever changes something names
        the fence it saw, so a repeat that finds its own work done answers "facts have moved".
        """
        tries = self._pool.max_size + 1
        while True:
            tries -= 1
            try:
                async with self._pool.connection() as connection:
                    return await self._execute(connection, statement, factory, parameters)
            except _DeadConnection as error:
                if not tries:
                    raise translate(error.cause, statement, on) from error.cause
            except PoolTimeout as error:
                raise StoreUnavailable("no connection", attempted=statement, on=on) from error
            except (psycopg.Error, OSError) as error:
                raise translate(error, statement, on) from error

    async def _execute(
        self,
        connection: psycopg.AsyncConnection[Any],
        statement: str,
        factory: RowFactory[Any],
        parameters: Mapping[str, Any],
    ) -> list[Any]:
        """Past the deadline the socket is closed, which ends what a frozen server does not."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._deadline
        watch = loop.call_at(until, connection.pgconn.finish)
        try:
            cursor = connection.cursor(row_factory=factory, binary=True)
            await cursor.execute(SQL[statement], parameters)
            return await cursor.fetchall()
        except psycopg.OperationalError as error:
            if connection.closed and loop.time() < until:
                raise _DeadConnection(error) from error
            raise
        finally:
            watch.cancel()


class _DeadConnection(Exception):
    """The connection had ended before the statement, or ended under it."""

    def __init__(self, cause: psycopg.OperationalError) -> None:
        super().__init__()
        self.cause = cause


def _seen(seen: Seen) -> dict[str, Any]:
    return {**asdict(seen), "state": str(seen.state)}


def _ended(end: AttemptEnd | None) -> dict[str, Any]:
    return (
        {"cause": None, "fault": None, "exit_code": None}
        if end is None
        else {"cause": end.cause, "fault": end.fault, "exit_code": end.exit_code}
    )


def _budgets(budgets: Budgets) -> dict[str, int | None]:
    return {
        "budget_turns": budgets.turns,
        "budget_tokens": budgets.tokens,
        "budget_cost": budgets.cost,
        "budget_active_s": budgets.active_seconds,
    }
