"""One installation for the whole folder, and cases that are played on it at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from tests.cluster import concurrent_cases
from tests.cluster.deploy import NAMESPACE, Installation
from tests.cluster.harness import Cluster, Postgres, build_image
from tests.cluster.harness.fixtures import cluster, postgres
from tests.cluster.peers import Peers
from tests.cluster.stage import Ground, Stage, explained

__all__ = ["cluster", "postgres"]

INSTALLED: Final = pytest.StashKey[ExitStack]()
"""What has to go when the last test of this folder is over: others share the cluster."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the cluster; the first test may have to wait until it is up."""
    concurrent_cases.in_order(items)
    for item in items:
        if item.path.is_relative_to(concurrent_cases.HERE):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.timeout(3600))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test with a ground is played among others, perhaps long before it is its turn."""
    if not concurrent_cases.on_ground(pyfuncitem):
        return None
    pyfuncitem.funcargs["cases"].judge(pyfuncitem)
    return True


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Uninstall on the way out of the folder, long before the session ends."""
    if nextitem is None or not nextitem.path.is_relative_to(concurrent_cases.HERE):
        item.session.stash.get(INSTALLED, ExitStack()).close()


@pytest.fixture(scope="session")
def stage(
    cluster: Cluster,
    postgres: Postgres,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    """The operator, installed for this session alone, and its peers."""
    image = build_image()
    sidecar = Peers.build_sidecar(cluster, image)
    cluster.load_image(image, *filter(None, [sidecar]))
    operator = Installation(cluster, postgres, image)
    peers = Peers(cluster, image)
    with ExitStack() as installed:
        request.session.stash[INSTALLED] = installed
        installed.callback(operator.remove)
        output = tmp_path_factory.mktemp("diagnosis")
        with explained(cluster, output, NAMESPACE, peers.namespace):
            operator.install()
            peers.start()
        yield Stage(cluster, operator, peers, postgres, image, sidecar, output)


@pytest.fixture(scope="session")
def cases(
    stage: Stage, request: pytest.FixtureRequest
) -> Iterator[concurrent_cases.ConcurrentCases]:
    """Everybody who plays at the same time."""
    everybody = concurrent_cases.ConcurrentCases(stage, request.session.items)
    yield everybody
    everybody.close()


@pytest.fixture
def ground(cases: concurrent_cases.ConcurrentCases) -> Ground | None:
    """A namespace of the case's own; it is made where the case is played."""
    return None
