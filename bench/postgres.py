"""A PostgreSQL of our own with default durability, and runs on it as an operator opens them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg

from agentrun.controller.attempts import new_attempt, new_identity
from agentrun.run.capture import Resolved, capture
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.operator_store import PostgresOperatorStore, open_operator_store
from agentrun.store.port import NewRun, Seen
from agentrun.store.roles import LOCAL_ROLE
from agentrun.store.rows import Budgets, Requested, RunRow
from agentrun.store.runner_store import Hold, open_runner_store
from agentrun.store.runner_store.facade import PostgresRunnerStore
from bench.sample_run import SPEC, Played

CAPTURED = capture(SPEC, Resolved())
_SCHEMA = f"""
CREATE SCHEMA bench;
CREATE TABLE bench.bare (
  run_uid text COLLATE "C" NOT NULL, seq bigint NOT NULL, body bytea NOT NULL,
  PRIMARY KEY (run_uid, seq));
ALTER TABLE bench.bare ALTER COLUMN body SET STORAGE EXTERNAL;
GRANT USAGE ON SCHEMA bench TO {LOCAL_ROLE};
GRANT INSERT ON bench.bare TO {LOCAL_ROLE}
"""
"""The table of the bare INSERT: bytes by run and number, the least that a durable step can need."""
LEASE_MS = 600_000
"""Longer than any workload: a renewal in between would be measured with a boundary."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the workloads run: the owner's DSN and the runner's."""

    owner: str
    runner: str
    data: Path

    def sql(self) -> psycopg.Connection:
        """The owner's connection, to look."""
        return psycopg.connect(self.owner, autocommit=True)


@contextlib.contextmanager
def grounds() -> Iterator[Ground]:
    """A server for the time of the benchmarks. fsync and full_page_writes are on, as initdb left
    them; the folder can be reached by the account that Postgres runs as."""
    folder = Path(tempfile.mkdtemp(prefix="bench-agentrun-"))
    folder.chmod(0o711)
    server = EmbeddedPostgres(folder, settings={"shared_buffers": "128MB"})
    try:
        server.start()
        with psycopg.connect(server.dsn, autocommit=True) as sql:
            sql.execute(_SCHEMA)
        yield Ground(server.dsn, server.runner_dsn, server.data)
    finally:
        with contextlib.suppress(Exception):
            server.stop(immediate=True)
        shutil.rmtree(folder, ignore_errors=True)


class Operator:
    """Opens runs and mints their first attempt."""

    def __init__(self, ground: Ground, store: PostgresOperatorStore) -> None:
        self._ground = ground
        self._store = store

    async def hold(self) -> Hold:
        """A minted run, and who may claim it."""
        uid = str(uuid4())
        row = await self._store.open_run(_new_run(uid))
        identity = new_identity(secrets.token_hex)
        attempt = new_attempt(row, "start", None, identity)
        minted = await self._store.mint(_seen(row), "start", attempt, None)
        assert minted is not None
        return Hold(uid, minted.fence, identity.secret.encode(), "pod", uuid4().hex)

    async def runner(self, dsn: str | None = None) -> PostgresRunnerStore:
        """The store of a claimed run."""
        hold = await self.hold()
        runner = open_store(dsn or self._ground.runner, hold)
        await runner.claim()
        return runner


@contextlib.asynccontextmanager
async def operators(ground: Ground) -> AsyncIterator[Operator]:
    """An operator for the time of one workload."""
    store = await open_operator_store(ground.owner)
    try:
        yield Operator(ground, store)
    finally:
        await store.close()


def open_store(dsn: str, hold: Hold) -> PostgresRunnerStore:
    """What a runner pod opens. The connection stays while the other paths are measured."""
    return open_runner_store(
        dsn,
        run_uid=hold.run_uid,
        fence=hold.fence,
        secret=hold.secret,
        holder=hold.holder,
        nonce=hold.nonce,
        idle_seconds=600.0,
    )


async def fill(runner: PostgresRunnerStore, played: Sequence[Played]) -> None:
    """Append what comes before the part that is measured, as quickly as the store groups it."""
    for start in range(0, len(played), 512):
        part = played[start : start + 512]
        await asyncio.gather(*(runner.append(each.commit, each.sums) for each in part))


def _new_run(uid: str) -> NewRun:
    return NewRun(
        run_uid=uid,
        object_uid=uid,
        installation="bench",
        namespace_uid="bench",
        namespace="bench",
        name="bench",
        run_id=uid,
        spec=CAPTURED.spec,
        spec_hash=CAPTURED.spec_hash,
        generation=1,
        lease_ttl_ms=LEASE_MS,
        requested=Requested.RUN,
        requested_reason="",
        budgets=Budgets(),
    )


def _seen(row: RunRow) -> Seen:
    return Seen(row.run_uid, row.object_uid, row.fence, row.seq, row.state, row.holder)
