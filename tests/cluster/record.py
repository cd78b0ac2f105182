"""A run's record as the database holds it, read from this machine through the port-forward."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from psycopg.rows import dict_row

from agentrun.run.log import Log, blob_names
from agentrun.store.operator_store import open_operator_store
from agentrun.store.rows import RunRow

Row = dict[str, Any]


def rows(dsn: str, text: str, *parameters: object) -> list[Row]:
    """The answer to a statement, as whoever the DSN names."""
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as connection:
        cursor = connection.cursor(row_factory=dict_row)
        return cursor.execute(text.encode(), parameters).fetchall()


def state_of(dsn: str, run_uid: str) -> Row:
    """The columns of a run's row that tests ask for."""
    (row,) = rows(
        dsn,
        "SELECT state, reason, attempt, fence, seq, holder, app_faults, infra_faults"
        " FROM agentrun.run WHERE run_uid = %s",
        run_uid,
    )
    return row


def read(dsn: str, run_uid: str) -> tuple[RunRow, Log]:
    """The row, and everything that was committed."""
    return asyncio.run(_read(dsn, run_uid))


async def _read(dsn: str, run_uid: str) -> tuple[RunRow, Log]:
    store = await open_operator_store(dsn, connections=1)
    try:
        row = await store.run(run_uid)
        assert row is not None, f"no record of {run_uid}"
        commits = (await store.commits(run_uid)).commits
        blobs = await store.blobs(run_uid, blob_names(commits))
    finally:
        await store.close()
    return row, Log(run_uid, row.namespace, row.name, row.spec, row.spec_hash, commits, blobs)
