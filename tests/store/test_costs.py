"""What a boundary costs: rows, bytes, round trips, and none of it grows.

Counts and slopes, never seconds.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import psycopg

from agentrun.store.runner_store.facade import PostgresRunnerStore

from .conftest import Own
from .own_servers import worlds
from .proxy import Proxy
from .world import World, commit, eventually, totals

BODY = 1_500


@dataclass(frozen=True)
class Counters:
    """Statistics of the server, as of now."""

    run_updates: int
    run_hot: int
    commits: int
    other_inserts: int
    wal_bytes: int
    wal_records: int


def counters(sql: psycopg.Connection) -> Counters:
    """Read them; the backends that wrote must have reported first."""
    rows = {
        name: (ins, upd, hot)
        for name, ins, upd, hot in sql.execute(
            "SELECT relname, n_tup_ins, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
            " WHERE schemaname = 'agentrun'"
        ).fetchall()
    }
    lsn = sql.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
    wal = sql.execute("SELECT wal_records FROM pg_stat_wal").fetchone()
    assert lsn is not None
    assert wal is not None
    others = sum(ins for name, (ins, _, _) in rows.items() if name != "commit")
    return Counters(
        rows["run"][1], rows["run"][2], rows["commit"][0], others, int(lsn[0]), int(wal[0])
    )


async def append(runner: PostgresRunnerStore, count: int) -> None:
    """Boundaries one after another, none of them grouped."""
    for _ in range(count):
        body = secrets.token_bytes(BODY)
        ref = f"result:main/1/{secrets.token_hex(4)}/0"
        await runner.append(commit(body=body, ref=ref), totals())


async def settled(sql: psycopg.Connection, commits: int) -> Counters:
    """Counters, once the statistics say that so many commits were inserted."""
    await eventually(lambda: counters(sql).commits >= commits, "statistics have arrived")
    return counters(sql)


async def test_h53_a_boundary_is_one_row_one_hot_update_and_bounded_wal(
    own_postgres: Own,
) -> None:
    """And the thousandth costs what the twentieth did."""
    server = own_postgres()
    async with worlds(server) as world:
        runner, claim = await world.active(options={"idle_seconds": 0.05})
        with psycopg.connect(server.dsn, autocommit=True) as sql:
            marks = [await settled(sql, 1)]
            for upto in (20, 40, 980, 1_000):
                sql.execute("CHECKPOINT")
                await append(runner, upto - (marks[-1].commits - marks[0].commits))
                marks.append(await settled(sql, upto + 1))
        early, late = marks[2], marks[4]
        for before, after, count in ((marks[1], early, 20), (marks[3], late, 20)):
            assert after.commits - before.commits == count
            assert after.run_updates - before.run_updates == count
            assert after.other_inserts == before.other_inserts
            wal = (after.wal_bytes - before.wal_bytes) / count
            assert wal <= 1.3 * BODY + 1_024, f"{wal} bytes of WAL a boundary"
        updates = late.run_updates - marks[0].run_updates
        hot = late.run_hot - marks[0].run_hot
        assert hot >= 0.99 * updates, "boundary updates stay heap-only"
        slope = (late.wal_bytes - marks[3].wal_bytes) / (early.wal_bytes - marks[1].wal_bytes)
        assert slope <= 1.3
        assert (await world.row(claim.run_uid)).seq == 1_001


async def test_a_renewal_is_one_hot_update(world: World, sql: psycopg.Connection) -> None:
    runner, claim = await world.active(lease_ttl_ms=600)
    look = "SELECT lease_expires_at, xmin FROM agentrun.run WHERE run_uid = %s"
    before = sql.execute(look, (claim.run_uid,)).fetchone()
    await eventually(lambda: sql.execute(look, (claim.run_uid,)).fetchone() != before, "a renewal")
    pages = sql.execute(
        "SELECT count(DISTINCT split_part(ctid::text, ',', 1)) FROM agentrun.run"
        " WHERE run_uid = %s",
        (claim.run_uid,),
    ).fetchone()
    assert pages == (1,)
    assert runner.lease_age() >= 0


async def test_a_boundary_is_one_round_trip_with_and_without_extras(
    world: World, proxy: Proxy
) -> None:
    runner, _ = await world.active(options={"dsn": proxy.client_dsn})
    proxy.forget()
    for _ in range(50):
        await runner.append(commit(), totals())
    assert proxy.round_trips == 50
    assert not any(b"BEGIN" in batch or b"COMMIT" in batch for batch in proxy.batches)
    assert not any(batch[:1] == b"P" and batch[5:6] != b"\0" for batch in proxy.batches), (
        "no named prepared statement: a pooler in transaction mode may stand between"
    )


async def test_nothing_per_boundary_is_indexed(sql: psycopg.Connection) -> None:
    indexed = sql.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid"
        " AND a.attnum = ANY (i.indkey) WHERE i.indrelid = 'agentrun.run'::regclass"
    ).fetchall()
    changes_seldom = {"run_uid", "installation", "state"}
    assert {name for (name,) in indexed} == changes_seldom
    options = sql.execute(
        "SELECT reloptions FROM pg_class WHERE oid = 'agentrun.run'::regclass"
    ).fetchone()
    assert options is not None
    assert "fillfactor=50" in options[0]
    storage = sql.execute(
        "SELECT attstorage FROM pg_attribute WHERE attrelid = 'agentrun.commit'::regclass"
        " AND attname = 'body'"
    ).fetchone()
    assert storage == ("e",), "compressed already"
