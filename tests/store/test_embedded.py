"""The embedded server: shared by a folder's users, up while one lives, back after any death."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from agentrun.errors import StoreUnavailable
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.embedded import account as accounts
from agentrun.store.embedded.account import Account, choose_account, home_for
from agentrun.store.embedded.users import start_time

from .conftest import FAST, dispose, short_folder
from .own_servers import worlds
from .world import commit, eventually, totals


@pytest.fixture
def folder() -> Iterator[Path]:
    made = short_folder()
    yield made
    dispose(EmbeddedPostgres(made), made)


@pytest.fixture
def server(folder: Path, template: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(folder, settings=FAST, template=template)


def works(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


class User:
    """Another process that uses the folder until it is told to leave or killed."""

    def __init__(self, folder: Path, how: str = "start") -> None:
        code = f"""
            import sys
            from pathlib import Path
            from agentrun.store.embedded import EmbeddedPostgres
            server = EmbeddedPostgres(Path({str(folder)!r}))
            server.{how}()
            print("in", flush=True)
            sys.stdin.readline()
            server.leave()
        """
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "in\n"

    def leave(self) -> None:
        self.process.communicate("out\n")
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_started_from_nothing_it_is_ready_and_migrated(folder: Path) -> None:
    server = EmbeddedPostgres(folder, settings=FAST)
    dsn = server.start()
    assert works(dsn)
    assert works(server.runner_dsn)
    with psycopg.connect(dsn) as sql:
        assert sql.execute("SELECT count(*) > 0 FROM agentrun.schema_version").fetchone() == (True,)
        assert sql.execute("SHOW listen_addresses").fetchone() == ("",), "no network"
    server.leave()
    assert not server.running


def test_a_folder_may_be_named_from_the_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    server = EmbeddedPostgres(Path(folder.name), settings=FAST)
    dsn = server.start()
    monkeypatch.chdir("/")
    assert works(dsn)
    server.leave()
    assert not server.running


def test_the_last_user_stops_it(server: EmbeddedPostgres, folder: Path) -> None:
    dsn = server.start()
    other = User(folder)
    server.leave()
    assert works(dsn)
    other.leave()
    assert not server.running


def test_a_killed_user_does_not_count(server: EmbeddedPostgres, folder: Path) -> None:
    dsn = server.start()
    User(folder).kill()
    assert works(dsn), "nor does its death stop the others' server"
    server.leave()
    assert not server.running


def test_a_server_outlives_its_starter_and_the_next_user_ends_it(
    server: EmbeddedPostgres, folder: Path
) -> None:
    User(folder).kill()
    assert server.running
    dsn = server.start()
    assert works(dsn)
    server.leave()
    assert not server.running


def test_a_runner_that_attached_keeps_it_up_when_the_starter_leaves(
    server: EmbeddedPostgres, folder: Path
) -> None:
    dsn = server.start()
    runner = User(folder, "attach")
    server.leave()
    assert works(dsn)
    runner.leave()
    assert not server.running


def test_one_process_may_come_and_go_many_times(server: EmbeddedPostgres, folder: Path) -> None:
    for _ in range(3):
        server.start()
        server.start()
        EmbeddedPostgres(folder).start()
        assert len(json.loads((folder / "users.json").read_text())) == 1
        server.leave()
        assert not server.running


def test_a_reused_pid_is_not_the_user_that_had_it(server: EmbeddedPostgres, folder: Path) -> None:
    server.start()
    (folder / "users.json").write_text(json.dumps([[os.getppid(), "another time"]]))
    server.leave()
    assert not server.running


def test_attach_needs_a_running_server(server: EmbeddedPostgres, folder: Path) -> None:
    with pytest.raises(StoreUnavailable):
        server.attach()
    with pytest.raises(StoreUnavailable):
        EmbeddedPostgres(folder / "none").attach()
    EmbeddedPostgres(folder / "none").leave()
    dsn = server.start()
    assert server.attach() == dsn


@pytest.mark.parametrize("immediate", [True, False])
async def test_a_restart_keeps_the_record(server: EmbeddedPostgres, immediate: bool) -> None:
    server.start()
    async with worlds(server) as world:
        runner, _ = await world.active()
        await runner.append(commit(), totals())
        server.restart(immediate=immediate)
        assert await runner.append(commit(), totals()) == 3


async def test_a_killed_server_is_started_again_whatever_it_left(
    server: EmbeddedPostgres, folder: Path
) -> None:
    """Where nobody reaps, it stays a zombie; its lock file, socket and memory stay in any case."""
    server.start()
    pid = server.postmaster_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not server.running, "it is dead")
    assert (server.data / "postmaster.pid").exists()
    assert works(server.start())


def test_a_lock_file_of_a_stranger_is_no_server(server: EmbeddedPostgres) -> None:
    server.start()
    server.stop()
    lines = f"{os.getpid()}\n{server.data}\n0\n5432\n{server.data.parent}\n\n\nready\n"
    (server.data / "postmaster.pid").write_text(lines)
    assert not server.running
    assert works(server.start())


def test_an_initialisation_that_was_killed_is_done_again(folder: Path) -> None:
    server = EmbeddedPostgres(folder, settings=FAST)
    server.data.mkdir(parents=True)
    (server.data / "half").write_text("x")
    (server.data.parent / "data.new").mkdir()
    assert works(server.start())


def test_a_long_path_gets_its_socket_elsewhere(folder: Path, template: Path) -> None:
    deep = folder / ("d" * 60) / ("e" * 60)
    server = EmbeddedPostgres(deep, settings=FAST, template=template)
    dsn = server.start()
    assert works(dsn)
    assert works(EmbeddedPostgres(deep).attach()), "others find it"
    elsewhere = Path((server.data.parent / "socket").read_text())
    assert elsewhere.stat().st_mode & 0o077 == 0
    server.leave()
    assert not elsewhere.exists()
    with pytest.raises(StoreUnavailable):
        _ = server.dsn


@pytest.mark.parametrize("depth", [0, 2], ids=["in the folder", "elsewhere"])
def test_a_socket_that_somebody_removed_is_made_again(
    folder: Path, template: Path, depth: int
) -> None:
    where = folder.joinpath(*["d" * 60] * depth)
    server = EmbeddedPostgres(where, settings=FAST, template=template)
    server.start()
    home = server.data.parent
    if depth:
        shutil.rmtree((home / "socket").read_text())
    else:
        (home / ".s.PGSQL.5432").unlink()
    try:
        assert works(server.start())
    finally:
        server.stop(immediate=True)


async def test_the_schema_works_on_an_older_server(folder: Path) -> None:
    """PostgreSQL 16: what managed services still run."""
    server = EmbeddedPostgres(folder, settings=FAST, version=16)
    server.start()
    async with worlds(server) as world:
        with psycopg.connect(server.dsn) as sql:
            version = sql.execute("SHOW server_version_num").fetchone()
            assert version is not None
            assert version[0].startswith("16")
        row = await world.suspended(2)
        for index in (0, 1):
            row_after = await world.decide(row, index)
        assert row_after is not None
        assert (row_after.attempt, row_after.fence) == (2, 2)
        runner, _ = await world.active()
        await runner.append(commit(), totals())
        await runner.snapshot(1, 2, 0, b"state")
        assert (await runner.restore()).snapshot is not None


# As root, Postgres runs as somebody else, who must reach what it needs.

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")


@root
def test_a_folder_that_only_root_reaches_is_not_opened_up(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = short_folder()
    monkeypatch.setattr(accounts, "_ELSEWHERE", elsewhere)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    modes = {p: p.stat().st_mode for p in (private, *private.parents)}
    server = EmbeddedPostgres(private / "state", settings=FAST, template=template)
    try:
        assert works(server.start())
        assert works(EmbeddedPostgres(private / "state").attach())
        assert server.data.parent.parent == elsewhere
        assert {p: p.stat().st_mode for p in modes} == modes
    finally:
        server.stop()
    shutil.rmtree(private / "state")
    home_for(_made(private / "other"), choose_account())
    homes = [p for p in elsewhere.iterdir() if (p / "data").exists()]
    assert homes == [], "the home of a removed folder is swept"
    shutil.rmtree(elsewhere)


@root
def test_a_program_that_only_root_reaches_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = short_folder()
    monkeypatch.setattr(accounts, "_ELSEWHERE", elsewhere)
    install = tmp_path / "pginstall"
    (install / "bin").mkdir(parents=True)
    (install / "bin" / "postgres").write_text("#!/bin/sh\n")
    copy = accounts.program_for(install, choose_account())
    assert copy.parent == elsewhere
    assert (copy / "bin" / "postgres").read_text() == "#!/bin/sh\n"
    assert accounts.program_for(install, choose_account()) == copy, "once"
    assert accounts.program_for(install, Account(None, None)) == install
    shutil.rmtree(elsewhere)


def test_dead_processes_and_zombies_have_no_start_time() -> None:
    child = subprocess.Popen(["sleep", "60"])
    assert start_time(child.pid) is not None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert start_time(child.pid) is None, "a zombie"
    child.wait()
    assert start_time(child.pid) is None


def _made(path: Path) -> Path:
    path.mkdir()
    return path
