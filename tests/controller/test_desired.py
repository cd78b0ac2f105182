"""What is wanted of the run (H27, H63, H68)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.worlds import (
    PRICES,
    acts,
    ago,
    first,
    kinds,
    pending_row,
    row,
    run,
    spec,
    suspended_row,
    terminal_row,
    unclaimed_row,
    world,
)

from agentrun.controller.actions import SetRequested
from agentrun.controller.plan.desired import Desired, desired
from agentrun.store.rows import Budgets, Requested, RunState, TotalsRow

RUN, SUSPEND, CANCEL = Requested.RUN, Requested.SUSPEND, Requested.CANCEL
SPENT = {"limits": {"activeDeadlineSeconds": 60}}
SPENT_FAIL = {"limits": {"activeDeadlineSeconds": 60, "onExceeded": "Fail"}}
LATE = {"limits": {"deadlineSeconds": 60}}


@pytest.mark.parametrize(
    ("asked", "requested", "reason"),
    [
        ({}, RUN, ""),
        ({"suspend": True}, SUSPEND, "User"),
        ({"cancel": True}, CANCEL, "User"),
        ({"cancel": True, "suspend": True}, CANCEL, "User"),
        (SPENT, SUSPEND, "Budget"),
        ({**SPENT, "suspend": True}, SUSPEND, "User"),
        ({**SPENT, "cancel": True}, CANCEL, "User"),
        (SPENT_FAIL, CANCEL, "Budget"),
        ({**SPENT_FAIL, "suspend": True}, CANCEL, "Budget"),
        (LATE, CANCEL, "Deadline"),
        ({**LATE, "cancel": True}, CANCEL, "Deadline"),
        ({**LATE, "suspend": True}, CANCEL, "Deadline"),
    ],
)
def test_one_function_of_spec_deadlines_and_budgets(
    asked: dict[str, Any], requested: Requested, reason: str
) -> None:
    at = world(spec=spec(**asked))
    assert at.spec is not None
    assert at.row is not None
    assert desired(at, at.spec, at.row) == Desired(requested, reason)
    if requested is not RUN:
        act = first(at)
        assert isinstance(act, SetRequested)
        assert (act.requested, act.reason) == (requested, reason)


@pytest.mark.parametrize("reason", ["User", "Deadline", "Budget"])
@pytest.mark.parametrize("asked", [{}, {"suspend": True}, {"cancel": True}, LATE, SPENT_FAIL])
def test_h27_cancel_latches_with_its_first_reason(reason: str, asked: dict[str, Any]) -> None:
    what = spec(**asked)
    asked_row = row(requested=CANCEL, requested_reason=reason)
    at = world(spec=what, row=asked_row)
    assert desired(at, what, asked_row) == Desired(CANCEL, reason)


def test_it_is_written_once() -> None:
    asked = row(requested=SUSPEND, requested_reason="User")
    assert "SetRequested" not in kinds(world(spec=spec(suspend=True), row=asked))


def test_a_raised_budget_is_written_while_the_run_goes_on() -> None:
    what = spec(limits={"turns": 300, "costUSD": "5"}, pricing=PRICES)
    act = first(world(spec=what))
    assert isinstance(act, SetRequested)
    assert act.requested is RUN
    assert act.budgets == Budgets(turns=300, cost=5 * 10**12)


def test_a_newer_generation_is_written_although_nothing_else_differs() -> None:
    """So that an operator with a spec in between cannot undo it later (H63)."""
    what = spec(ttlSecondsAfterFinished=60)
    act = first(world(spec=what, run=run(what, generation=4)))
    assert isinstance(act, SetRequested)
    assert act.generation == 4


@pytest.mark.parametrize(
    "asked", [{}, {"suspend": True}, {"cancel": True}, {"limits": {"turns": 1}}]
)
def test_h63_an_operator_with_an_older_spec_writes_nothing(asked: dict[str, Any]) -> None:
    what = spec(**asked)
    ahead = row(generation=3, requested=SUSPEND, requested_reason="User")
    at = world(spec=what, run=run(what, generation=2), row=ahead)
    assert "SetRequested" not in kinds(at)
    assert desired(at, what, ahead) == Desired(SUSPEND, "User")


def test_h63_resume_is_a_newer_generation() -> None:
    asked = suspended_row(generation=2, requested=SUSPEND, requested_reason="User")
    what = spec()
    at = world(spec=what, run=run(what, generation=3), row=asked, pods=())
    act = first(at)
    assert isinstance(act, SetRequested)
    assert (act.requested, act.reason, act.generation) == (RUN, "", 3)


@pytest.mark.parametrize("state", [s for s in RunState if s.terminal])
def test_a_terminal_run_is_asked_nothing(state: RunState) -> None:
    at = world(spec=spec(cancel=True), row=terminal_row(state), pods=())
    assert "SetRequested" not in kinds(at)


@pytest.mark.parametrize("the_row", [pending_row, unclaimed_row, row, suspended_row])
@pytest.mark.parametrize("asked", [{"suspend": True}, {"cancel": True}])
def test_in_every_live_state_what_is_desired_is_the_first_thing_written(
    the_row: Any, asked: dict[str, Any]
) -> None:
    assert isinstance(first(world(spec=spec(**asked), row=the_row())), SetRequested)


def test_turns_tokens_and_cost_are_the_runners_own_business() -> None:
    """A last reply that uses up the budget is never cut off by the operator."""
    used = row(totals=TotalsRow(turns=3, input_tokens=900), budgets=Budgets(turns=3, tokens=900))
    assert acts(world(spec=spec(limits={"turns": 3, "tokens": 900}), row=used)) == ()


@pytest.mark.parametrize(
    ("active_ms", "since", "spent"),
    [(0, 59, False), (0, 60, True), (59_000, 0, False), (59_000, 1, True), (60_000, None, True)],
)
def test_active_time_is_the_sum_over_attempts(
    active_ms: int, since: float | None, spent: bool
) -> None:
    used = row(active_ms=active_ms, active_since=None if since is None else ago(seconds=since))
    at = world(spec=spec(limits={"activeDeadlineSeconds": 60}), row=used)
    wanted = desired(at, at.spec, used)  # type: ignore[arg-type]
    assert (wanted.requested is SUSPEND) is spent


def test_waiting_uses_up_no_active_time() -> None:
    waiting = suspended_row(active_ms=59_000, active_since=None, suspended_at=ago(days=30))
    at = world(spec=spec(limits={"activeDeadlineSeconds": 60}), row=waiting)
    assert desired(at, at.spec, waiting) == Desired(RUN)  # type: ignore[arg-type]
