"""An event loop whose time passes only when nothing else happens: hours of waiting cost nothing."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Skipping(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Instead of sleeping until the next timer, moves the clock there."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everybody waits for something that cannot come")
            self.loop.advance(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time()`` starts at 1000 and jumps from timer to timer."""

    def __init__(self) -> None:
        selector = _Skipping()
        selector.loop = self
        self._virtual = 1000.0
        super().__init__(selector)

    def time(self) -> float:
        return self._virtual

    def advance(self, seconds: float) -> None:
        self._virtual += seconds


def run(work: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def now() -> float:
    """The running loop's time: the clock that the code under test is given."""
    return asyncio.get_running_loop().time()
