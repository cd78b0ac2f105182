"""Cases that mostly wait are played at the same time; each is still judged by its own test.

Starting a pod keeps a core busy for seconds, and what follows is mostly waiting. So all tests that
take a ``ground`` and are not marked ``alone`` begin, a few at a time, when the first of them is
reached; every test then waits for its own. Tests marked ``alone`` come after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from tests.cluster.stage import Stage

AT_ONCE: Final = 4
HERE: Final = Path(__file__).parent


def in_order(items: list[pytest.Item]) -> None:
    """Sort the tests of this folder where they stand: those that overlap first, then those that are alone."""
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(HERE)]
    ours = sorted((items[place] for place in places), key=_rank)
    for place, item in zip(places, ours, strict=True):
        items[place] = item


def _rank(item: pytest.Item) -> int:
    if on_ground(item):
        return 2 if is_alone(item) else 0
    return 1


def on_ground(item: pytest.Item) -> bool:
    """Whether the test plays on a namespace of its own."""
    return "ground" in getattr(item, "fixturenames", ())


def is_alone(item: pytest.Item) -> bool:
    """Whether nothing else may happen in the cluster meanwhile."""
    return item.get_closest_marker("alone") is not None


class ConcurrentCases:
    """The cases that are being played at the same time."""

    def __init__(self, stage: Stage, items: Sequence[pytest.Item]) -> None:
        self._stage = stage
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="case")
        self._cases: dict[str, Future[None]] = {
            item.nodeid: self._pool.submit(play, stage, item)
            for item in items
            if item.path.is_relative_to(HERE) and on_ground(item) and not is_alone(item)
        }

    def judge(self, item: pytest.Item) -> None:
        """Wait for a case; what it raised is raised here."""
        case = self._cases.get(item.nodeid)
        if case is None:
            self.disperse()
            play(self._stage, item)
        else:
            case.result()

    def disperse(self) -> None:
        """Wait until everybody is done."""
        for case in self._cases.values():
            case.exception()

    def close(self) -> None:
        """What has not begun never will."""
        self._pool.shutdown(cancel_futures=True)


def play(stage: Stage, item: pytest.Item) -> None:
    """The test's function, on a ground of its own."""
    assert isinstance(item, pytest.Function)
    parameters: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    with stage.ground(item.name) as ground:
        item.obj(ground=ground, **parameters)
