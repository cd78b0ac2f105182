"""Several scenes of one kind at the same time, each judged by its own test.

Starting a runner keeps one core busy for seconds, and a scene mostly waits for such starts one after
the other; so scenes that have nothing to do with each other overlap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import pytest

T = TypeVar("T")
AT_ONCE = 3


class Batch(Generic[T]):
    """What came of scenes that have been played, by case."""

    def __init__(self, outcomes: dict[str, T | BaseException]) -> None:
        self._outcomes = outcomes

    def of(self, case: str) -> T:
        """What the scene returned; what it raised is raised in the test that asks."""
        found = self._outcomes[case]
        if isinstance(found, BaseException):
            raise found
        return found


def play(cases: Iterable[str], scene: Callable[[str], Awaitable[T]]) -> Batch[T]:
    """Play the scene of every case, some at a time."""
    return Batch(asyncio.run(_gather(list(cases), scene)))


async def _gather(
    cases: list[str], scene: Callable[[str], Awaitable[T]]
) -> dict[str, T | BaseException]:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(case: str) -> T:
        async with limit:
            return await scene(case)

    results = await asyncio.gather(*(one(case) for case in cases), return_exceptions=True)
    return dict(zip(cases, results, strict=True))


def wanted(request: pytest.FixtureRequest, parameter: str = "case") -> list[str]:
    """Values of a parameter among the tests of this module that are going to run."""
    found = [
        str(item.callspec.params[parameter])
        for item in request.session.items
        if item.path == request.path
        and hasattr(item, "callspec")
        and parameter in item.callspec.params
    ]
    return list(dict.fromkeys(found))
