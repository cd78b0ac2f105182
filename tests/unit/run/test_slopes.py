"""Cost per commit does not grow with the run. CPU time, compared with itself, generously."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest
from tests.unit.run.pure_runner import PureRunner, asks, make_spec, says, text

from agentrun.run import codec
from agentrun.run.fold import check, fold
from agentrun.run.next_steps import next_steps
from agentrun.run.records import ToolResult
from agentrun.run.request import build_request
from agentrun.run.state import State
from agentrun.run.values import Intent, ModelRequest

FACTOR = 2.5
WORDS = "the service answers slowly because its pool is exhausted " * 20


def cost(work: Callable[[], object], prepare: Callable[[], None] = lambda: None) -> float:
    """CPU seconds of the least disturbed of several tries."""
    tries = []
    gc.disable()
    try:
        for _ in range(5):
            prepare()
            started = time.process_time()
            work()
            tries.append(time.process_time() - started)
    finally:
        gc.enable()
    return min(tries)


def long_run(turns: int) -> PureRunner:
    """A finished run, without the cost of building its requests."""
    spec = make_spec(agents=[{"name": "sre", "tools": ["ops.*"], "maxTurns": turns + 1}])
    runner = PureRunner(
        spec, lambda turn, _: asks("look", turn=turn) if turn <= turns else text("done")
    )
    runner.tool = lambda call: says(WORDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tests.unit.run.pure_runner.build_request",
            lambda state, spec, path: ModelRequest("m", b"", "a" * 64, "b" * 64, "c" * 64),
        )
        return runner.attempt().run(limit=10 * turns)


@pytest.fixture(scope="module")
def whole() -> PureRunner:
    return long_run(600)


def restored(runner: PureRunner, count: int | None = None) -> State:
    """The state after so many commits."""
    state = State()
    for origin, encoded in runner.commits[:count]:
        fold(state, origin, codec.decode(encoded.codec, encoded.body, encoded.blobs))
    return check(state)


def test_restore_is_linear(whole: PureRunner) -> None:
    few = len(whole.commits) // 4
    assert cost(lambda: restored(whole)) <= FACTOR * 4 * cost(lambda: restored(whole, few))


def test_a_late_commit_folds_as_quickly_as_an_early_one(whole: PureRunner) -> None:
    def folding(start: int) -> float:
        commits = [
            (origin, codec.decode(encoded.codec, encoded.body, encoded.blobs))
            for origin, encoded in whole.commits[start : start + 300]
        ]
        states: list[State] = []

        def work() -> None:
            for origin, records in commits:
                fold(states[-1], origin, records)

        return cost(work, lambda: states.append(restored(whole, start)))

    assert folding(len(whole.commits) - 301) <= FACTOR * folding(10)


def test_what_may_run_is_found_as_quickly_late_as_early(whole: PureRunner) -> None:
    def asking(turns: int) -> float:
        state = restored(whole, 4 + 3 * turns)
        assert state.conversations["main"].calls
        return cost(lambda: [next_steps(state, whole.spec, Intent()) for _ in range(200)])

    assert asking(590) <= FACTOR * asking(10)


def test_a_request_costs_what_its_size_costs(whole: PureRunner) -> None:
    def per_byte(turns: int) -> float:
        state = restored(whole, 3 + 3 * turns)
        size = len(build_request(state, whole.spec, "main").body)
        return cost(lambda: build_request(state, whole.spec, "main")) / size

    assert per_byte(590) <= FACTOR * per_byte(100)


def test_a_round_of_many_calls_costs_what_its_calls_cost() -> None:
    def round_of(calls: int) -> float:
        runner = PureRunner(
            make_spec(), lambda turn, _: asks(*["look"] * calls, turn=1) if turn == 1 else text("x")
        )
        runner.attempt()
        while runner.state.totals.turns == 0:
            runner.do(runner.steps()[0])
        for step in runner.steps():
            runner.do(step)
        assert runner.state.totals.tool_calls == calls
        return cost(lambda: restored(runner))

    assert round_of(800) <= FACTOR * 4 * round_of(200)


def test_a_commit_is_encoded_in_time_that_its_size_takes() -> None:
    def encoding(blocks: int) -> float:
        content = [{"type": "text", "text": WORDS, "more": {"n": [1, 2, 3]}}] * blocks
        record = ToolResult(call="main/1/1/0", content=content)
        return cost(lambda: [codec.encode([record]) for _ in range(20)])

    assert encoding(80) <= FACTOR * 4 * encoding(20)
