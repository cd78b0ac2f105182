"""Budgets of the whole run: a new attempt does not start them from zero, and raising one goes on."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.chaos.harness import oracle
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.oracle import Trail
from tests.chaos.harness.scene import scene
from tests.chaos.harness.scenes import long
from tests.chaos.harness.stage import failpoint

from agentrun.run.records import RunSuspend
from agentrun.runner import failpoints

TURNS = 8
TOKENS, COST = 120, 480_000_000
"""Of one turn: what USAGE sums up to, and what it costs at PRICING, in picodollars."""
FIVE: dict[str, dict[str, Any]] = {
    "turns": {"turns": 5},
    "tokens": {"tokens": 4 * TOKENS + 1},
    "cost": {"costUSD": "0.002"},
}
"""Each is used up by the fifth turn."""
KILLED = f"{failpoints.AFTER_REPLY}:3"
"""With two turns committed."""


def check(found: Trail, turns: int) -> None:
    """Two attempts paid for these turns and nothing else."""
    totals = found.row.totals
    assert totals.turns == turns
    assert (found.state.totals.tokens, totals.cost) == (turns * TOKENS, turns * COST)
    assert found.row.app_faults == 1
    oracle.check_record(found)
    oracle.check_effects(found)


@pytest.mark.parametrize("budget", FIVE)
@overlapping
async def test_a_budget_counts_over_attempts_and_goes_on_when_it_is_raised(
    shared: Grounds, budget: str
) -> None:
    folder = shared.folder(budget)
    async with scene(
        shared,
        long(TURNS, 0.05),
        folder=folder,
        environ=failpoint(folder, KILLED),
        limits=FIVE[budget],
    ) as playing:
        await playing.phase("Suspended", "BudgetExceeded")
        spent = await playing.trail()
        await playing.change(limits=dict.fromkeys(FIVE[budget]))
        found = await playing.ended()

    check(spent, 5)
    assert spent.row.attempt == 2
    assert [one.record.reason for one in spent.of(RunSuspend)] == ["BudgetExceeded"]
    check(found, TURNS)
    assert (found.row.state, found.row.attempt) == ("Succeeded", 3)
    turns = [line["turn"] for line in found.asked]
    assert sorted(turns) == sorted([*range(TURNS), 2]), "only the lost reply was asked for again"


@overlapping
async def test_a_spent_budget_fails_the_run_that_asks_for_it(shared: Grounds) -> None:
    folder = shared.folder("fail")
    async with scene(
        shared,
        long(TURNS, 0.05),
        folder=folder,
        environ=failpoint(folder, KILLED),
        limits={"turns": 5, "onExceeded": "Fail"},
    ) as playing:
        found = await playing.ended()

    check(found, 5)
    assert (found.row.state, found.row.reason) == ("Failed", "BudgetExceeded")
    assert found.row.attempt == 2


@overlapping
async def test_active_time_counts_over_attempts(shared: Grounds) -> None:
    """The budget is what the first attempt has used, so the second may not go on with its work."""
    folder = shared.folder("active")
    async with scene(shared, long(40), folder=folder, environ=failpoint(folder, KILLED)) as playing:
        second = await playing.stage.row_where(
            playing.name, lambda row: row.attempt == 2 and row.holder, "the second attempt works"
        )
        used = math.ceil(second.active_ms / 1000)
        await playing.change(limits={"activeDeadlineSeconds": used})
        await playing.phase("Suspended", "BudgetExceeded")
        spent = await playing.row()
        await playing.change(limits={"activeDeadlineSeconds": None})
        found = await playing.ended()

    assert second.active_ms > 0
    assert spent.active_ms >= second.active_ms
    assert (found.row.state, found.row.attempt) == ("Succeeded", 3)
    assert found.row.totals.turns == 40
    assert found.row.active_ms >= spent.active_ms
    oracle.check_record(found)
    oracle.check_effects(found)
