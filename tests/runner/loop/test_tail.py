"""The tail: one order, and nothing handed over before what it builds on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from tests.runner.loop.virtual import now, run

from agentrun.errors import StoreRefused
from agentrun.runner.clock import Clock
from agentrun.runner.observer import Observer
from agentrun.runner.tail import Tail
from agentrun.store.port import NewCommit
from agentrun.store.rows import TotalsRow


class Desk:
    """A store that lands what it is told to, when it is told to."""

    def __init__(self) -> None:
        self.handed: list[str] = []
        self._waiting: dict[str, asyncio.Future[int]] = {}

    async def append(self, commit: NewCommit, totals: TotalsRow, *, end: object = None) -> int:
        self.handed.append(commit.kind)
        self._waiting[commit.kind] = asyncio.get_running_loop().create_future()
        return await self._waiting[commit.kind]

    async def land(self, kind: str) -> None:
        self._waiting.pop(kind).set_result(1)
        await settled()

    async def refuse(self, kind: str) -> None:
        self._waiting.pop(kind).set_exception(StoreRefused("never"))
        await settled()

    @property
    def open(self) -> list[str]:
        return list(self._waiting)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def tail(desk: Desk, changed: Callable[[], None] = lambda: None) -> Tail:
    return Tail(desk, Clock(now), Observer(), changed)  # type: ignore[arg-type]


def put(queue: Tail, kind: str, after: int, *, strict: bool = False) -> None:
    queue.submit(NewCommit(kind, None, 0, b"", True), TotalsRow(), after=after, strict=strict)


def test_results_of_parallel_calls_travel_together_and_the_round_after_them() -> None:
    async def scene() -> None:
        desk = Desk()
        queue = tail(desk)
        put(queue, "result 1", 0)
        put(queue, "result 2", 0)
        put(queue, "round", 2)
        await settled()
        assert desk.handed == ["result 1", "result 2"]

        await desk.land("result 2")
        assert queue.landed_through == 0
        assert "round" not in desk.handed
        await desk.land("result 1")
        assert desk.handed[-1] == "round"
        await desk.land("round")
        assert queue.idle

    run(scene())


def test_nothing_that_builds_on_a_refused_commit_is_handed_over() -> None:
    async def scene() -> None:
        desk = Desk()
        queue = tail(desk)
        put(queue, "result", 0)
        put(queue, "round", 1)
        await settled()
        await desk.refuse("result")

        assert isinstance(queue.failure, StoreRefused)
        assert desk.handed == ["result"]

        queue.give_up()
        put(queue, "outcome", queue.submitted)
        await settled()
        assert desk.handed == ["result", "outcome"]

    run(scene())


def test_a_late_refusal_of_what_was_given_up_is_no_news() -> None:
    async def scene() -> None:
        desk = Desk()
        queue = tail(desk)
        put(queue, "result 1", 0)
        put(queue, "result 2", 0)
        await settled()
        await desk.refuse("result 1")
        queue.give_up()
        await desk.refuse("result 2")

        assert queue.failure is None

    run(scene())


def test_strict_is_open_until_it_has_landed() -> None:
    async def scene() -> None:
        desk = Desk()
        queue = tail(desk)
        put(queue, "reply", 0, strict=True)
        put(queue, "result", 0)
        await settled()
        assert queue.strict_open
        await desk.land("reply")
        assert not queue.strict_open
        assert not queue.idle

    run(scene())


@given(st.lists(st.integers(min_value=0, max_value=5), min_size=1, max_size=12), st.randoms())
def test_handed_over_in_order_and_only_on_landed_ground(backs: list[int], chance: object) -> None:
    """Whatever depends on whatever earlier, and whatever lands first."""

    async def scene() -> None:
        desk = Desk()
        queue = tail(desk)
        after = {}
        landed: set[int] = set()
        for number, back in enumerate(backs, start=1):
            after[number] = max(0, number - 1 - back)
            put(queue, str(number), after[number])
        await settled()
        while desk.open:
            for kind in desk.open:
                assert all(before in landed for before in range(1, after[int(kind)] + 1))
            chosen = chance.choice(desk.open)  # type: ignore[attr-defined]
            landed.add(int(chosen))
            await desk.land(chosen)
        assert desk.handed == [str(number) for number in range(1, len(backs) + 1)]
        assert queue.idle

    run(scene())
