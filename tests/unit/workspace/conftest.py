"""One folder per test; unix socket paths are short, so it is not pytest's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .servers import Folder


@pytest.fixture
def folder() -> Iterator[Folder]:
    with tempfile.TemporaryDirectory(prefix="ws") as path:
        yield Folder(Path(path))
