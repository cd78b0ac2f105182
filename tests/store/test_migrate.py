"""Migrations: forward only, one at a time, and nobody waits behind them (H28)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from agentrun.errors import SchemaMismatch, StoreUnavailable
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.migrate import (
    EXPECTED,
    Migration,
    bundled,
    check_version,
    migrate,
    read_migrations,
)

from .world import World, commit, eventually, totals


@pytest.fixture
def empty(postgres: EmbeddedPostgres) -> Iterator[str]:
    """An empty database on the shared server."""
    with psycopg.connect(postgres.dsn, autocommit=True) as sql:
        sql.execute("CREATE DATABASE fresh")
    yield postgres.dsn.replace("/postgres?", "/fresh?")
    with psycopg.connect(postgres.dsn, autocommit=True) as sql:
        sql.execute("DROP DATABASE fresh WITH (FORCE)")


@pytest.fixture
def next_one(postgres: EmbeddedPostgres) -> Iterator[tuple[Migration, ...]]:
    """The release after this one: it adds a column to the busiest table."""
    text = "ALTER TABLE agentrun.run ADD COLUMN novelty integer"
    yield (*bundled(), Migration(EXPECTED + 1, f"{EXPECTED + 1:04}_novelty", text))
    with psycopg.connect(postgres.dsn, autocommit=True) as sql:
        sql.execute("ALTER TABLE agentrun.run DROP COLUMN IF EXISTS novelty")
        sql.execute("DELETE FROM agentrun.schema_version WHERE version > %s", (EXPECTED,))


def test_an_empty_database_is_brought_to_this_release(empty: str) -> None:
    assert migrate(empty) == EXPECTED
    assert migrate(empty) == EXPECTED, "and again: nothing to do"
    with psycopg.connect(empty) as sql:
        names = sql.execute("SELECT version, name FROM agentrun.schema_version ORDER BY 1")
        assert names.fetchall() == [(m.version, m.name) for m in bundled()]


def test_many_operators_may_start_at_once(empty: str) -> None:
    reached: list[int] = []
    threads = [
        threading.Thread(target=lambda: reached.append(migrate(empty, sleep=_pause)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reached == [EXPECTED] * 4


async def test_h28_behind_a_long_reader_heartbeats_go_on(
    world: World, next_one: tuple[Migration, ...]
) -> None:
    runner, claim = await world.active(lease_ttl_ms=6_000)
    migrating = threading.Thread(
        target=lambda: migrate(
            world.postgres.dsn, migrations=next_one, lock_timeout_ms=50, sleep=_pause
        )
    )
    with psycopg.connect(world.postgres.dsn) as reader:
        reader.execute("SELECT count(*) FROM agentrun.run")
        migrating.start()
        with psycopg.connect(world.postgres.dsn, autocommit=True) as sql:
            waits = (
                "SELECT count(*) FROM pg_locks WHERE relation = 'agentrun.run'::regclass"
                " AND mode = 'AccessExclusiveLock' AND NOT granted"
            )
            for _ in range(3):  # the migration waits, and gives up, and waits again
                await eventually(lambda: sql.execute(waits).fetchone() == (1,), "it waits")
                await runner.append(commit(), totals())
                await eventually(lambda: sql.execute(waits).fetchone() == (0,), "it gives up")
        assert migrating.is_alive()
    await eventually(lambda: not migrating.is_alive(), "it is done")
    await runner.append(commit(), totals())
    assert (await world.row(claim.run_uid)).seq == 5, "old functions work on the new schema"


async def test_a_migration_that_never_gets_its_lock_says_so(
    world: World, next_one: tuple[Migration, ...]
) -> None:
    with psycopg.connect(world.postgres.dsn) as reader:
        reader.execute("SELECT count(*) FROM agentrun.run")
        with pytest.raises(StoreUnavailable, match="held by others"):
            migrate(
                world.postgres.dsn,
                migrations=next_one,
                lock_timeout_ms=1,
                patience=0.0,
                sleep=_pause,
            )
    await world.operator.ping()


def test_a_failing_migration_leaves_nothing_behind(postgres: EmbeddedPostgres) -> None:
    text = "CREATE TABLE agentrun.half (x integer); SELECT 1 / 0"
    todo = (*bundled(), Migration(EXPECTED + 1, "broken", text))
    with pytest.raises(Exception, match="division by zero"):
        migrate(postgres.dsn, migrations=todo)
    with psycopg.connect(postgres.dsn) as sql:
        assert sql.execute("SELECT to_regclass('agentrun.half')").fetchone() == (None,)
        version = sql.execute("SELECT max(version) FROM agentrun.schema_version").fetchone()
        assert version == (EXPECTED,)


def test_a_newer_schema_is_left_alone(
    postgres: EmbeddedPostgres, next_one: tuple[Migration, ...]
) -> None:
    assert migrate(postgres.dsn, migrations=next_one) == EXPECTED + 1
    assert migrate(postgres.dsn) == EXPECTED + 1
    check_version(EXPECTED + 1)


async def test_a_runner_on_a_database_without_its_functions_is_told_to_migrate(
    world: World, sql: psycopg.Connection
) -> None:
    row, secret = await world.minted()
    sql.execute("ALTER FUNCTION agentrun.claim_v1 RENAME TO claim_v0")
    try:
        with pytest.raises(SchemaMismatch, match="agentrun migrate"):
            await world.runner(row, secret).claim()
    finally:
        sql.execute("ALTER FUNCTION agentrun.claim_v0 RENAME TO claim_v1")


def test_versions_are_checked() -> None:
    check_version(EXPECTED)
    with pytest.raises(SchemaMismatch, match=f"version 0, this program needs {EXPECTED}"):
        check_version(0)


def test_migrations_are_numbered_without_gaps(tmp_path: Path) -> None:
    assert [m.version for m in bundled()] == list(range(1, EXPECTED + 1))
    (tmp_path / "0001_a.sql").write_text("SELECT 1")
    (tmp_path / "0003_c.sql").write_text("SELECT 1")
    with pytest.raises(SchemaMismatch, match="not numbered"):
        read_migrations(tmp_path)


def test_a_dead_server_is_an_outage() -> None:
    with pytest.raises(StoreUnavailable):
        migrate("host=/nowhere")


def _pause(seconds: float) -> None:
    """Shorter waits than a migration has time for."""
    threading.Event().wait(min(seconds, 0.02))
