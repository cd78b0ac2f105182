"""The progress poll: what wakes a run, and how often."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.fakes import Clock, FakeStore
from tests.controller.test_queue import Time, make
from tests.controller.worlds import INSTALLATION, KEY, UID, expired_row, row

from agentrun.controller.freshness import Heartbeat
from agentrun.controller.poll import FASTEST, Poll, compare, fingerprint, interval
from agentrun.controller.world import Gap
from agentrun.errors import StoreUnavailable
from agentrun.store.rows import Requested, RunState


def looks(*rows: Any) -> Any:
    """One look of the poll."""
    return {each.run_uid: fingerprint(each) for each in rows}


@pytest.mark.parametrize(
    "changed",
    [
        {"fence": 2},
        {"holder": "other"},
        {"state": RunState.SUSPENDED},
        {"requested": Requested.CANCEL},
        {"requested_reason": "Deadline"},
    ],
)
def test_what_a_person_would_notice_wakes_at_once(changed: dict[str, Any]) -> None:
    changes = compare(looks(row()), looks(row(**changed)))
    assert (changes.now, changes.progressed) == ({KEY}, set())


def test_an_expired_lease_wakes_at_once() -> None:
    assert compare(looks(row()), looks(expired_row())).now == {KEY}


def test_new_runs_and_runs_that_have_left_wake_at_once() -> None:
    assert compare({}, looks(row())).now == {KEY}
    assert compare(looks(row()), {}).now == {KEY}


def test_a_question_is_asked_at_once_although_other_calls_still_run() -> None:
    """Its object appears when the request is committed."""
    assert compare(looks(row()), looks(row(seq=6, unasked=True))).now == {KEY}


def test_progress_is_only_progress() -> None:
    changes = compare(looks(row()), looks(row(seq=6)))
    assert (changes.now, changes.progressed) == (set(), {KEY})


def test_a_renewal_is_nothing() -> None:
    from tests.controller.worlds import ahead

    changes = compare(looks(row()), looks(row(lease_expires_at=ahead(seconds=60))))
    assert (changes.now, changes.progressed) == (set(), set())


@pytest.mark.parametrize(
    ("ttls", "seconds"), [([], 1.0), ([60], 1.0), ([60, 3], 0.5), ([1], FASTEST)]
)
def test_a_third_of_the_shortest_lease_is_never_the_rhythm(ttls: list[int], seconds: float) -> None:
    rows = [row(lease_ttl_ms=ttl * 1000) for ttl in ttls]
    assert interval(rows, 1.0) == seconds


class TestLoop:
    """The poll over a store and a queue."""

    def setup(self) -> tuple[Poll, FakeStore, Time, Any]:
        time = Time()
        clock = Clock()
        store = FakeStore(clock)
        store.rows[UID] = row()
        queue = make(time)
        poll = Poll(store, queue, Heartbeat(time.clock), time.clock, INSTALLATION, 1.0)
        return poll, store, time, queue

    async def test_progress_wakes_at_most_once_in_ten_seconds(self) -> None:
        poll, store, time, queue = self.setup()
        await poll.once()
        await queue.get()
        queue.done(KEY)
        woken = 0
        for seq in range(6, 46):
            store.rows[UID] = row(seq=seq)
            await poll.once()
            time.move(1.0)
            while len(queue):
                queue.done(await queue.get())
                woken += 1
        assert woken == 5  # at 0, 10, 20, 30 and 40 s

    async def test_the_last_progress_is_not_forgotten(self) -> None:
        poll, store, time, queue = self.setup()
        await poll.once()
        queue.done(await queue.get())
        for seq in (6, 7):
            store.rows[UID] = row(seq=seq)
            await poll.once()
        queue.done(await queue.get())
        assert len(queue) == 0
        time.move(10)
        assert len(queue) == 1

    async def test_an_outage_concludes_nothing(self) -> None:
        poll, store, _time, queue = self.setup()
        await poll.once()
        queue.done(await queue.get())
        store.up = False
        with pytest.raises(StoreUnavailable):
            await poll.once()
        assert len(queue) == 0
        store.up = True
        await poll.once()
        assert len(queue) == 0

    async def test_h15_only_an_answer_is_a_successful_poll(self) -> None:
        poll, store, time, _queue = self.setup()
        await poll.once()
        store.up = False
        for _ in range(30):
            time.move(1.0)
            with pytest.raises(StoreUnavailable):
                await poll.once()
        assert poll.heartbeat.freshness(synced=True).since_poll == 30.0
        store.up = True
        time.move(1.0)
        await poll.once()
        fresh = poll.heartbeat.freshness(synced=True)
        assert (fresh.since_poll, fresh.gaps) == (0.0, (Gap(31.0, 0.0),))

    async def test_other_installations_are_not_seen(self) -> None:
        poll, store, _time, queue = self.setup()
        store.rows[UID] = row(installation="other")
        await poll.once()
        assert len(queue) == 0
