"""What a runner's login may do: its nine functions, and nothing else (H46)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from agentrun.errors import StoreRefused, StoreUnavailable
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.roles import (
    LOCAL_ROLE,
    ensure_runner_login,
    runner_password,
    runner_role,
)
from agentrun.store.rows import Budgets, Requested
from agentrun.store.runner_store.jobs import SQL

from .conftest import Own
from .world import OBJECT, World

TABLES = [
    "run", "run_spec", "commit", "snapshot", "blob", "attempt", "attempt_secret", "approval",
    "schema_version", "run_row", "run_facts",
]  # fmt: skip
MAY = {
    "claim_v1", "renew_v1", "append_v1", "append_group_v1", "snapshot_v1", "restore_v1",
    "put_blob_v1", "get_blobs_v1", "release_v1",
}  # fmt: skip


@pytest.fixture
def runner(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres.runner_dsn, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 FROM agentrun.{}",
        "INSERT INTO agentrun.{} DEFAULT VALUES",
        "DELETE FROM agentrun.{}",
        "TRUNCATE agentrun.{}",
        "LOCK TABLE agentrun.{} IN ACCESS EXCLUSIVE MODE",
        "ALTER TABLE agentrun.{} ADD COLUMN x integer",
        "DROP TABLE agentrun.{}",
    ],
)
def test_no_right_on_any_table(runner: psycopg.Connection, table: str, statement: str) -> None:
    with pytest.raises(psycopg.Error) as caught, runner.transaction():
        runner.execute(statement.format(table))
    assert caught.value.sqlstate in {"42501", "42809", "55000"}


def test_the_list_of_tables_is_complete(sql: psycopg.Connection) -> None:
    found = sql.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'agentrun'::regnamespace"
        " AND relkind IN ('r', 'v', 'm', 'p', 'S')"
    ).fetchall()
    assert {name for (name,) in found} == set(TABLES)


def test_only_the_runners_functions_may_be_executed(sql: psycopg.Connection) -> None:
    rows = sql.execute(
        "SELECT p.proname, has_function_privilege(%s, p.oid, 'EXECUTE'), p.prosecdef, p.proconfig"
        " FROM pg_proc p WHERE pronamespace = 'agentrun'::regnamespace",
        (LOCAL_ROLE,),
    ).fetchall()
    assert {name for name, may, _, _ in rows if may} == MAY
    for name, may, definer, config in rows:
        assert definer is may, name
        if may:
            assert "search_path=pg_catalog, pg_temp" in config, name


def test_public_may_execute_nothing_of_ours(sql: psycopg.Connection) -> None:
    rows = sql.execute(
        "SELECT p.proname FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner)))"
        " a WHERE p.pronamespace = 'agentrun'::regnamespace AND a.grantee = 0"
    ).fetchall()
    assert rows == []


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TEMP TABLE t (x integer)",
        "CREATE TABLE public.t (x integer)",
        "CREATE TABLE agentrun.t (x integer)",
        "CREATE SCHEMA mine",
        "CREATE FUNCTION public.f() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "CREATE DATABASE mine",
        "CREATE ROLE mine",
        "ALTER ROLE postgres PASSWORD 'x'",
        "ALTER ROLE agentrun_runner LOGIN",
        "GRANT agentrun_runner TO postgres",
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION postgres",
        "ALTER SYSTEM SET fsync = off",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SELECT pg_read_file('PG_VERSION')",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT agentrun.link(NULL, 1, 'R', 'k', NULL, 0::int2, NULL)",
        "SELECT agentrun.revoke_v1('x', 'y', 'z')",
        "SELECT agentrun.standing('x', 1, NULL)",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres'",
    ],
)
def test_no_other_way_in(
    runner: psycopg.Connection, sql: psycopg.Connection, statement: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        runner.execute(statement)
    assert caught.value.sqlstate in {"42501", "0LP01"}, caught.value


def test_h46_what_others_run_is_hidden(runner: psycopg.Connection, sql: psycopg.Connection) -> None:
    sql.execute("SELECT 'a secret of the operator'")
    rows = runner.execute(
        "SELECT query FROM pg_stat_activity WHERE usename = 'postgres'"
    ).fetchall()
    assert rows
    assert all(query == "<insufficient privilege>" for (query,) in rows)


def test_a_password_is_bound_to_the_namespace_and_the_key() -> None:
    one = runner_password(b"key", "uid-1")
    assert one == runner_password(b"key", "uid-1")
    assert one not in {runner_password(b"key", "uid-2"), runner_password(b"other", "uid-1")}
    assert runner_role("uid-1") != runner_role("uid-2")
    assert len(runner_role("x" * 200)) <= 63


@pytest.mark.parametrize("role", ["postgres", "agentrun_runner", "agentrun_x; DROP", "", "a" * 70])
def test_no_role_but_a_runners_is_ever_touched(postgres: EmbeddedPostgres, role: str) -> None:
    with pytest.raises(StoreRefused):
        ensure_runner_login(postgres.dsn, role, "password")


def test_a_role_with_rights_of_its_own_is_not_taken(
    postgres: EmbeddedPostgres, sql: psycopg.Connection
) -> None:
    sql.execute("CREATE ROLE agentrun_powerful CREATEROLE")
    try:
        with pytest.raises(StoreRefused, match="rights of its own"):
            ensure_runner_login(postgres.dsn, "agentrun_powerful", "password")
    finally:
        sql.execute("DROP ROLE agentrun_powerful")


def test_many_operators_may_make_one_login_at_once(postgres: EmbeddedPostgres) -> None:
    role = runner_role("uid-of-many")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: ensure_runner_login(postgres.dsn, role, "password"), range(18)))


def test_a_login_works_with_its_password_only_and_is_repaired(own_postgres: Own) -> None:
    server = own_postgres()
    role, password = runner_role("uid-1"), runner_password(b"key", "uid-1")
    ensure_runner_login(server.dsn, role, password)
    _demand_passwords(server.data, server.dsn)
    dsn = server.dsn.replace("postgres@", f"{role}@")
    with psycopg.connect(dsn, password=password, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE {role} PASSWORD 'changed by a tenant'")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(dsn, password=password)
    ensure_runner_login(server.dsn, role, password)
    psycopg.connect(dsn, password=password).close()


def test_h46_tenants_see_nothing_of_each_other(own_postgres: Own) -> None:
    server = own_postgres()
    for uid in ("uid-1", "uid-2"):
        ensure_runner_login(server.dsn, runner_role(uid), "password")
    one, two = (server.dsn.replace("postgres@", f"{runner_role(u)}@") for u in ("uid-1", "uid-2"))
    with psycopg.connect(one, autocommit=True) as a, psycopg.connect(two, autocommit=True) as b:
        a.execute("SELECT 'content'")
        (query,) = b.execute(
            "SELECT query FROM pg_stat_activity WHERE pid = %s", (a.info.backend_pid,)
        ).fetchone() or ("",)
        assert query == "<insufficient privilege>"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            b.execute("SELECT pg_terminate_backend(%s)", (a.info.backend_pid,))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            b.execute(f"ALTER ROLE {runner_role('uid-1')} PASSWORD 'x'")


def _demand_passwords(data: Path, dsn: str) -> None:
    hba = data / "pg_hba.conf"
    hba.write_text("local all postgres trust\nlocal all all scram-sha-256\n", encoding="utf-8")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_reload_conf()")
        until = 200
        while (
            until
            and connection.execute(
                "SELECT 1 FROM pg_hba_file_rules WHERE auth_method = 'scram-sha-256'"
            ).fetchone()
            is None
        ):
            until -= 1


async def test_a_tenant_that_keeps_its_row_locked_keeps_no_connection_of_the_operator(
    world: World, postgres: EmbeddedPostgres
) -> None:
    """A handful of such runs would otherwise take all of them, and stop the runs of everybody."""
    runner, claim = await world.active()
    wish = (claim.run_uid, OBJECT, 2, Requested.CANCEL, "User", "", Budgets())
    with psycopg.connect(postgres.runner_dsn) as tenant:
        tenant.execute(SQL["renew"], runner._hold.parameters())
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            await world.operator.request(*wish)
        assert time.monotonic() - started < 6
    assert await world.operator.request(*wish) is not None
