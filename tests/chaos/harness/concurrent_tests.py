"""Tests that overlap: each is a scene of its own, and several of them play at the same time.

Starting a runner keeps one core busy for seconds, and a scene mostly waits for such starts, one after
the other, or for leases to expire. So the first test that is run starts the scenes of all tests that
will be run, a few at a time and in their order; each test then waits for its own and reports it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

Scene = Callable[..., Awaitable[None]]
AT_ONCE = int(os.environ.get("CHAOS_AT_ONCE", "4"))
SCENE = "chaos_scene"


def overlapping(scene: Scene) -> Callable[..., None]:
    """A test from a coroutine function whose parameters are ``shared`` and those of the test."""

    @functools.wraps(scene)
    def test(request: pytest.FixtureRequest, shared: Any, **parameters: Any) -> None:
        del parameters
        shared.overlap.result(request.node)

    own = inspect.signature(scene).parameters.values()
    ours = inspect.Parameter("request", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    test.__signature__ = inspect.Signature([ours, *own])  # type: ignore[attr-defined]
    setattr(test, SCENE, scene)
    return test


class Overlap:
    """An event loop in a thread, and the scenes that play on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._thread = threading.Thread(target=self._loop.run_forever, name="scenes", daemon=True)
        self._thread.start()
        self._futures: dict[str, Future[None]] = {}

    def begin(self, shared: object, items: Iterable[pytest.Item]) -> None:
        """Start the scenes of these tests."""
        for item in items:
            scene = getattr(getattr(item, "function", None), SCENE, None)
            if scene is not None:
                parameters = dict(item.callspec.params) if hasattr(item, "callspec") else {}
                playing = self._play(scene, shared, parameters)
                future = asyncio.run_coroutine_threadsafe(playing, self._loop)
                self._futures[item.nodeid] = future

    def result(self, item: pytest.Item) -> None:
        """Wait for the test's own scene; what it raised is raised here."""
        self._futures[item.nodeid].result()

    def end(self) -> None:
        """Stop what still plays, and let it clean up."""
        asyncio.run_coroutine_threadsafe(self._cancel(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _play(self, scene: Scene, shared: object, parameters: dict[str, Any]) -> None:
        async with self._limit:
            await scene(shared, **parameters)

    async def _cancel(self) -> None:
        """Again and again, because a cancellation may be swallowed on its way."""
        me = asyncio.current_task()
        while left := {task for task in asyncio.all_tasks() if task is not me}:
            for task in left:
                task.cancel()
            with suppress(TimeoutError):
                await asyncio.wait(left, timeout=1)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()
