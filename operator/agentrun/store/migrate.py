"""Bring a database's schema to the version that this program needs.

Migrations are numbered files, forward only, each in a transaction of its own that also records it.
They wait for locks only briefly and try again: a statement that waits behind a long reader makes
everybody else wait behind itself, heartbeats included (H28). Two migrations at once are kept apart
by a lock on ``schema_version`` and not by an advisory lock, which any tenant of the database could
take and hold.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import LiteralString

import psycopg

from agentrun.errors import SchemaMismatch, StoreUnavailable
from agentrun.store.failures import MIGRATE_ADVICE, translate

_TABLE = """
CREATE TABLE IF NOT EXISTS agentrun.schema_version (
  version    integer PRIMARY KEY,
  name       text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""

_TRY_AGAIN = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateObject,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateTable,
)
"""Somebody holds a lock, or is preparing the same empty database at the same moment."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    version: int
    name: str
    text: LiteralString


def bundled() -> tuple[Migration, ...]:
    """The migrations of this release, oldest first."""
    return read_migrations(resources.files("agentrun.store") / "migrations")


def read_migrations(folder: Traversable) -> tuple[Migration, ...]:
    """``NNNN_name.sql`` files, numbered from 1 without gaps."""
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda e: e.name
    )
    found = tuple(
        Migration(
            version=int(entry.name.split("_", 1)[0]),
            name=entry.name.removesuffix(".sql"),
            text=entry.read_text(encoding="utf-8"),
        )
        for entry in files
    )
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise SchemaMismatch("migrations are not numbered 1, 2, 3 …", attempted="read migrations")
    return found


EXPECTED = bundled()[-1].version
"""The schema version this program needs. A newer one is fine: functions carry their version."""


def check_version(found: int) -> None:
    """SchemaMismatch, with advice, unless the database is at least at ``EXPECTED``."""
    if found < EXPECTED:
        raise SchemaMismatch(
            f"the database has schema version {found}, this program needs {EXPECTED}",
            attempted="use the store",
            advice=MIGRATE_ADVICE,
        )


def migrate(
    dsn: str,
    *,
    migrations: tuple[Migration, ...] | None = None,
    lock_timeout_ms: int = 500,
    patience: float = 120.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = random.random,
) -> int:
    """Apply what is missing and return the version. StoreUnavailable when ``patience`` is over."""
    todo = bundled() if migrations is None else migrations
    until = clock() + patience
    step = 0
    try:
        with psycopg.connect(
            dsn, autocommit=True, prepare_threshold=None, connect_timeout=10
        ) as connection:
            while True:
                try:
                    version = _apply_next(connection, todo, lock_timeout_ms)
                except _TRY_AGAIN as error:
                    if clock() >= until:
                        raise StoreUnavailable(
                            "locks that the migration needs are held by others",
                            attempted="migrate",
                            advice="Look for long transactions on the agentrun tables.",
                        ) from error
                    step += 1
                    sleep(min(2.0, 0.05 * 2 ** min(step, 6)) * (0.5 + jitter()))
                    continue
                if version >= len(todo):
                    return version
                step = 0
    except psycopg.Error as error:
        raise translate(error, "migrate", "the database") from error


def _apply_next(
    connection: psycopg.Connection, todo: tuple[Migration, ...], lock_timeout_ms: int
) -> int:
    """Apply the first missing migration, if any, and return the version reached."""
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{lock_timeout_ms}ms",))
        if _missing(connection, "to_regnamespace('agentrun')"):
            connection.execute("CREATE SCHEMA IF NOT EXISTS agentrun")
        if _missing(connection, "to_regclass('agentrun.schema_version')"):
            connection.execute(_TABLE)
        connection.execute("LOCK TABLE agentrun.schema_version IN SHARE ROW EXCLUSIVE MODE")
        row = connection.execute(
            "SELECT coalesce(max(version), 0) FROM agentrun.schema_version"
        ).fetchone()
        version = int(row[0]) if row else 0
        if version >= len(todo):
            return version
        migration = todo[version]
        connection.execute(migration.text)
        connection.execute(
            "INSERT INTO agentrun.schema_version (version, name) VALUES (%s, %s)",
            (migration.version, migration.name),
        )
        return migration.version


def _missing(connection: psycopg.Connection, lookup: LiteralString) -> bool:
    """Looked up first: creating what is there needs rights that the operator may not have."""
    return connection.execute(f"SELECT {lookup} IS NULL").fetchone() == (True,)
