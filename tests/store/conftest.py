"""Real PostgreSQL for every test: one server for most, one of its own for those that break it."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.embedded.users import start_time

from .proxy import Proxy
from .world import World

FAST = {"fsync": "off", "full_page_writes": "off"}
"""Loses nothing when processes are killed, only when the machine is."""


def short_folder() -> Path:
    """A folder that an unprivileged account can reach, with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ar-"))
    folder.chmod(0o711)
    return folder


def dispose(server: EmbeddedPostgres, folder: Path) -> None:
    """Stop a server, however far its test got, and remove it."""
    with contextlib.suppress(Exception):
        server.stop(immediate=True)
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove servers of test runs that were killed before they could."""
    for users in Path(tempfile.gettempdir()).glob("ar-*/users.json"):
        counted = json.loads(users.read_text(encoding="utf-8"))
        old = users.stat().st_mtime < time.time() - 600
        if old and not any(start_time(int(pid)) == started for pid, started in counted):
            dispose(EmbeddedPostgres(users.parent), users.parent)


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """An initialised, migrated and stopped data folder, to be copied."""
    sweep()
    folder = short_folder()
    server = EmbeddedPostgres(folder, settings=FAST)
    server.start()
    server.stop()
    yield server.data
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(template: Path) -> Iterator[EmbeddedPostgres]:
    """The server that most tests share. They tell their runs apart by UID and installation."""
    folder = short_folder()
    server = EmbeddedPostgres(folder, settings=FAST, template=template)
    server.start()
    yield server
    dispose(server, folder)


Own = Callable[..., EmbeddedPostgres]


@pytest.fixture
def own_postgres(template: Path) -> Iterator[Own]:
    """Makes servers of one's own, to be killed and stopped. ``durable``: with fsync."""
    made: list[tuple[EmbeddedPostgres, Path]] = []

    def make(*, durable: bool = False) -> EmbeddedPostgres:
        folder = short_folder()
        settings = {} if durable else FAST
        server = EmbeddedPostgres(folder, settings=settings, template=template)
        made.append((server, folder))
        server.start()
        return server

    yield make
    for server, folder in made:
        dispose(server, folder)


@pytest.fixture
async def world(postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    """An operator and its runs on the shared server."""
    made = await World.on(postgres)
    yield made
    await made.close()


@pytest.fixture
def sql(postgres: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    """The owner's connection, to look and to meddle."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def proxy(postgres: EmbeddedPostgres) -> Iterator[Proxy]:
    """A wire to the shared server, for runners."""
    folder = short_folder()
    made = Proxy(folder, postgres.runner_dsn)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)
