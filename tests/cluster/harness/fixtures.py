"""Pytest fixtures over the harness; a test module imports the ones that it uses."""

import fcntl
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from tests.cluster.harness.cluster import Cluster, Unavailable, ensure_cluster
from tests.cluster.harness.postgres import Postgres


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster, for this session alone; where there is none, a skip that says so, but in CI a
    failure."""
    try:
        found = ensure_cluster()
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no cluster: {why}", pytrace=False)
        pytest.skip(f"no cluster: {why}")
    _hold(found.kubeconfig.with_name("session.lock"))
    return found


@functools.cache
def _hold(path: Path) -> IO[str]:
    """Until this process ends no other session pauses nodes, kills Postgres or installs anything."""
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("waiting: another test session has the cluster", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@pytest.fixture(scope="session")
def postgres(cluster: Cluster) -> Iterator[Postgres]:
    """The shared database of the cluster."""
    with cluster.postgres() as server:
        yield server
