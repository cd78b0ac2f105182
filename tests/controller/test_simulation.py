"""Reconcile over fakes with real semantics: whole lives, and the same lives with crashes anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.controller.simulation import Sim
from tests.controller.worlds import KEY, UID

from agentrun.run.codec import decode
from agentrun.run.records import AttemptEnd, AttemptStart, RunStart
from agentrun.store.rows import RunState


@dataclass(frozen=True)
class Life:
    """A script, and what must come of it whoever crashes when."""

    scripts: tuple[tuple[str, ...], ...]
    state: RunState = RunState.SUCCEEDED
    reason: str = ""
    attempts: int = 1
    app: int = 0
    infra: int = 0
    unstartable: frozenset[int] = frozenset()
    what: tuple[tuple[str, Any], ...] = ()

    def sim(self, operators: int = 1) -> Sim:
        """A world in which it happens."""
        return Sim(
            scripts=self.scripts,
            unstartable=self.unstartable,
            what=dict(self.what),
            operators_count=operators,
        )

    def check(self, sim: Sim) -> None:
        """The same end, the same counts, one pod a fence, and nothing left behind."""
        row = sim.row
        assert (row.state, row.attempt) == (self.state, self.attempts)
        assert (row.app_faults, row.infra_faults) == (self.app, self.infra)
        if self.reason:
            assert row.reason == self.reason
        assert set(sim.pods_by_fence().values()) <= {1}, sim.pods_by_fence()
        assert not sim.live_pods() or self.frozen
        assert not sim.cluster.secrets
        status = sim.shown
        assert (status.phase, status.attempt, status.fence) == (row.state, row.attempt, row.fence)
        assert status.completion_time is not None
        assert len({fence for _, _, fence, _ in sim.store.mints}) == len(sim.store.mints)
        check_log(sim)

    @property
    def frozen(self) -> bool:
        """Whether a pod of it hangs on a node that does not answer, for ever."""
        return any("freeze" in script for script in self.scripts)


LIVES = {
    "clean": Life(()),
    "crash": Life((("commit", "crash"),), attempts=2, app=1),
    "oom": Life((("commit", "oom"), ("commit", "oom")), attempts=3, app=2),
    "drain": Life((("commit", "drain"), ("drain",)), attempts=3, infra=2),
    "frozen": Life((("commit", "freeze"),), attempts=2, infra=1),
    "ended before the claim": Life((), attempts=2, app=1, unstartable=frozenset({1})),
    "asks": Life((("commit", "ask"),), attempts=2),
    "asks twice and drains": Life((("ask",), ("drain",), ("ask",)), attempts=4, infra=1),
    "poison": Life((("crash",),) * 5, RunState.FAILED, "NoProgress", attempts=3, app=3),
    "bad configuration": Life((("config",),), RunState.FAILED, "BadConfiguration"),
    "retries": Life(
        (("commit", "crash"),) * 5,
        RunState.FAILED,
        "RetriesExhausted",
        attempts=3,
        app=3,
        what=(("limits", {"retries": 2}),),
    ),
    "infra retries": Life(
        (("drain",),) * 5,
        RunState.FAILED,
        "RetriesExhausted",
        attempts=2,
        infra=2,
        what=(("limits", {"infraRetries": 1}),),
    ),
    "cancelled before it began": Life(
        (), RunState.CANCELLED, "CancelledByUser", attempts=0, what=(("cancel", True),)
    ),
    "deaf and past its deadline": Life(
        (("commit", "hang"),),
        RunState.FAILED,
        "DeadlineExceeded",
        what=(("limits", {"deadlineSeconds": 300}),),
    ),
}


def check_log(sim: Sim) -> None:
    """The operator's records: a run starts once, attempts and fences grow, each is linked back."""
    found = [
        record
        for commit in sim.store.log.get(UID, [])
        if commit.origin == "O"
        for record in decode(commit.codec, commit.body, {})
    ]
    starts = [record for record in found if isinstance(record, AttemptStart)]
    assert [start.attempt for start in starts] == list(range(1, len(starts) + 1))
    assert sorted({start.fence for start in starts}) == [start.fence for start in starts]
    for before, after in pairwise(starts):
        link = after.continued_from
        assert link is not None
        assert (link.attempt, link.trace_id, link.span_id) == (
            before.attempt,
            before.trace_id,
            before.span_id,
        )
    assert sum(isinstance(record, RunStart) for record in found) == (1 if found else 0)
    ends = [record.attempt for record in found if isinstance(record, AttemptEnd)]
    assert len(ends) == len(set(ends))


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES.keys())
def test_a_life_without_faults_of_the_operator(life: Life) -> None:
    sim = life.sim()
    sim.settle()
    life.check(sim)


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES.keys())
def test_h25_the_operator_dies_at_every_border_once(life: Life) -> None:
    """Before and after every single call of a port, each in a life of its own; long lives repeat
    the same steps, so that every second border does there."""
    border, stride = 0, 1 if life.attempts < 3 else 2
    while True:
        sim = life.sim()
        sim.operators[0].fuse = border
        sim.settle()
        life.check(sim)
        if not sim.operators[0].crashes:
            break
        border += stride
    assert border > 10


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES.keys())
@pytest.mark.parametrize("every", [2, 3, 5, 8, 13])
def test_the_operator_dies_again_and_again(life: Life, every: int) -> None:
    """It gets as far as its fuse allows, over and over, and still gets there."""
    sim = life.sim()
    for _ in range(60):
        sim.operators[0].fuse = every + 6
        sim.operators[0].deliver()
        sim.operators[0].reconcile()
        for pod in sim.live_pods():
            sim.advance(pod)
        sim.pass_time(1.0)
        sim.decide_all()
    sim.operators[0].fuse = None
    sim.settle()
    life.check(sim)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(LIVES)),
    operators=st.integers(1, 2),
    choices=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=150),
)
def test_any_schedule_comes_to_the_same_end(
    name: str, operators: int, choices: list[tuple[int, int]]
) -> None:
    """Two operators at once, stale watches, crashes and pods, in any order."""
    life = LIVES[name]
    sim = life.sim(operators)
    for what, how in choices:
        _chosen(sim, what, how)
    for operator in sim.operators:
        operator.fuse = None
    sim.settle()
    life.check(sim)


def _chosen(sim: Sim, what: int, how: int) -> None:
    operator = sim.operators[how % len(sim.operators)]
    live = sim.live_pods()
    if what <= 4:
        operator.step()
    elif what == 5:
        operator.deliver(how)
    elif what == 6 and live:
        sim.advance(live[how % len(live)])
    elif what == 7:
        sim.pass_time(float(how))
    elif what == 8:
        operator.fuse = how
    elif what == 9:
        sim.decide_all()


def test_a_clean_run_costs_at_most_eight_writes_and_no_reads() -> None:
    sim = LIVES["clean"].sim()
    sim.settle()
    assert len(sim.cluster.writes) == 7, sim.cluster.writes
    reads = {call for call in sim.cluster.calls if call.startswith("get_")}
    assert not reads


def test_a_finished_run_is_never_looked_at_again() -> None:
    sim = LIVES["clean"].sim()
    sim.settle()
    assert sim.operators[0].reconciler.settled(KEY)


def test_an_idle_suspended_run_costs_nothing() -> None:
    sim = LIVES["asks"].sim()
    sim.settle(people=False)
    assert sim.row.state is RunState.SUSPENDED
    assert not sim.cluster.pods
    before = len(sim.cluster.writes)
    sim.pass_time(30 * 86_400)
    sim.operators[0].reconcile()
    assert len(sim.cluster.writes) == before
    assert sim.operators[0].wait is None
