"""The work queue: client-go's three rules, back-off, delayed adds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from agentrun.cluster.values import ObjectKey
from agentrun.controller.queue import Pace, WorkQueue

A, B, C = (ObjectKey("n", name) for name in "abc")


@dataclass
class FakeTimer:
    """A call that is to come at ``at``."""

    at: float
    call: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Time:
    """A clock and its timers, moved by hand."""

    now: float = 0.0
    timers: list[FakeTimer] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.now + delay, call)
        self.timers.append(timer)
        return timer

    def move(self, seconds: float) -> None:
        """Fire what is due, in order."""
        until = self.now + seconds
        while due := [t for t in self.timers if t.at <= until and not t.cancelled]:
            timer = min(due, key=lambda t: t.at)
            self.timers.remove(timer)
            self.now = timer.at
            timer.call()
        self.now = until

    @property
    def pending(self) -> list[float]:
        """When the next calls come."""
        return sorted(t.at for t in self.timers if not t.cancelled)


@pytest.fixture
def time() -> Time:
    return Time()


def make(time: Time, *, jitter: float = 1.0, pace: Pace | None = None) -> WorkQueue:
    """A queue on that time; jitter 1.0 is the whole back-off."""
    return WorkQueue(clock=time.clock, call_later=time.call_later, jitter=lambda: jitter, pace=pace)


async def test_first_in_first_out(time: Time) -> None:
    queue = make(time)
    for key in (A, B, C):
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == [A, B, C]


async def test_adding_twice_is_one_piece_of_work(time: Time) -> None:
    queue = make(time)
    queue.add(A)
    queue.add(A)
    await queue.get()
    assert len(queue) == 0


async def test_a_key_is_never_worked_on_twice_at_once(time: Time) -> None:
    queue = make(time)
    queue.add(A)
    await queue.get()
    queue.add(A)
    queue.add(A)
    assert len(queue) == 0
    queue.done(A)
    assert len(queue) == 1
    assert await queue.get() == A
    queue.done(A)
    assert len(queue) == 0


async def test_get_waits_for_work(time: Time) -> None:
    queue = make(time)
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.add(B)
    assert await waiting == B


async def test_two_workers_share_the_work(time: Time) -> None:
    queue = make(time)
    both = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add(A)
    queue.add(B)
    assert {await task for task in both} == {A, B}


def test_the_nearest_deadline_wakes(time: Time) -> None:
    queue = make(time)
    queue.add_after(A, 30)
    queue.add_after(A, 10)
    queue.add_after(A, 20)
    assert time.pending == [10]
    time.move(10)
    assert len(queue) == 1
    assert time.pending == []


def test_no_delay_is_now(time: Time) -> None:
    queue = make(time)
    queue.add_after(A, 0)
    queue.add_after(B, -5)
    assert len(queue) == 2


def test_failures_back_off_exponentially_up_to_the_cap(time: Time) -> None:
    queue = make(time, pace=Pace(base=1, cap=10))
    waits = []
    for _ in range(6):
        queue.retry(A)
        (at,) = time.pending
        waits.append(at - time.now)
        time.move(at - time.now)
    assert waits == [1, 2, 4, 8, 10, 10]


def test_half_of_the_backoff_is_random(time: Time) -> None:
    queue = make(time, jitter=0.0, pace=Pace(base=8, cap=100))
    queue.retry(A)
    assert time.pending == [4]


def test_success_starts_over(time: Time) -> None:
    queue = make(time, pace=Pace(base=1, cap=10))
    for _ in range(3):
        queue.retry(A)
        time.move(10)
    queue.forget(A)
    queue.retry(A)
    assert time.pending == [time.now + 1]


def test_keys_back_off_each_for_itself(time: Time) -> None:
    queue = make(time, pace=Pace(base=1, cap=10))
    for _ in range(3):
        queue.retry(A)
        time.move(10)
    queue.retry(B)
    assert time.pending == [time.now + 1]


def test_one_rate_for_all_failures(time: Time) -> None:
    queue = make(time, pace=Pace(base=0.001, cap=0.001, per_second=10, burst=5))
    keys = [ObjectKey("n", str(n)) for n in range(25)]
    for key in keys:
        queue.retry(key)
    assert time.pending[-1] == pytest.approx(2.0)
    assert sum(at <= 0.01 for at in time.pending) == 5


def test_the_rate_recovers(time: Time) -> None:
    queue = make(time, pace=Pace(base=0.001, cap=0.001, per_second=10, burst=5))
    for n in range(5):
        queue.retry(ObjectKey("n", str(n)))
    time.move(10)
    queue.retry(A)
    assert time.pending == [pytest.approx(time.now + 0.001)]


def test_a_retry_does_not_delay_an_event(time: Time) -> None:
    queue = make(time)
    queue.retry(A)
    queue.add(A)
    assert len(queue) == 1


def test_closing_cancels_what_was_to_come(time: Time) -> None:
    queue = make(time)
    queue.add_after(A, 10)
    queue.close()
    assert time.pending == []
