"""The grounds on which scenes play, one set per session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.harness.grounds import Grounds, grounds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is chaos, and may take its time on a busy machine. One process plays
    all scenes, because they share their grounds and overlap anyway."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.chaos)
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.xdist_group("chaos"))


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Iterator[Grounds]:
    """Database, tool server, reaper, and the scenes of all tests that will be run."""
    root = Path(tempfile.mkdtemp(prefix="chaos-"))
    root.chmod(0o711)  # PostgreSQL runs under another account than root
    try:
        with grounds(root) as made:
            made.overlap.begin(made, request.session.items)
            yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)
