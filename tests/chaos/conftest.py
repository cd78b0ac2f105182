"""The grounds on which scenes play, one set per session."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.harness import scenes
from tests.chaos.harness.grounds import Grounds, grounds
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.stage import stage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is chaos, and may take its time on a busy machine."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.chaos)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def shared() -> Iterator[Grounds]:
    """Database, tool server and reaper of the session."""
    root = Path(tempfile.mkdtemp(prefix="chaos-"))
    root.chmod(0o711)  # PostgreSQL runs under another account than root
    try:
        with grounds(root) as made:
            yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def undisturbed(shared: Grounds) -> Trail:
    """What ``scenes.everything`` leaves behind when nothing happens to it."""
    return asyncio.run(_undisturbed(shared))


async def _undisturbed(shared: Grounds) -> Trail:
    folder = shared.folder("reference")
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url))
            await made.ended(name)
            return await trail(made, name, model.log, shared.tools.effects)
