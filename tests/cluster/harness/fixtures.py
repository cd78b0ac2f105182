"""Pytest fixtures over the harness; a test module imports the ones that it uses."""

import os
from collections.abc import Iterator

import pytest
from tests.cluster.harness.cluster import Cluster, Unavailable, ensure_cluster
from tests.cluster.harness.postgres import Postgres


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster; where there is none, a skip that says so, but in CI a failure."""
    try:
        return ensure_cluster()
    except Unavailable as why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no cluster: {why}", pytrace=False)
        pytest.skip(f"no cluster: {why}")


@pytest.fixture(scope="session")
def postgres(cluster: Cluster) -> Iterator[Postgres]:
    """The shared database of the cluster."""
    with cluster.postgres() as server:
        yield server
