"""Resuming (H12, H26, H34, H35, H68)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.worlds import (
    PRICES,
    acts,
    ago,
    ahead,
    approval,
    first,
    kinds,
    request,
    row,
    spec,
    suspended_row,
    world,
)

from agentrun.controller.actions import CreatePod, Mint, SetRequested
from agentrun.controller.plan.budgets import budgets_of
from agentrun.controller.plan.plan import plan
from agentrun.store.rows import Budgets, Requested, TotalsRow

USED = TotalsRow(turns=10, input_tokens=900, output_tokens=100, cost=2 * 10**12)


def waiting(what: Any = None, **more: Any) -> Any:
    """A suspended run whose budgets are known to the row."""
    what = what or spec()
    return world(row=suspended_row(budgets=budgets_of(what), **more), spec=what, pods=())


def test_h12_resumes_level_triggered_when_nothing_is_pending() -> None:
    """A lost hint loses nothing: no event is needed, only the facts."""
    assert acts(waiting())[:2] == (Mint("resumed"), CreatePod(None))


def test_it_does_not_resume_while_a_question_is_open() -> None:
    at = world(row=suspended_row(pending_approvals=(request(),)), approvals=(approval(),), pods=())
    assert acts(at) == ()


def test_nor_while_its_user_wants_it_suspended() -> None:
    what = spec(suspend=True)
    asked = suspended_row(
        reason="SuspendedByUser", requested=Requested.SUSPEND, requested_reason="User"
    )
    made = plan(world(row=asked, spec=what, pods=()))
    assert made.actions == ()
    assert made.status is not None
    assert made.status.reason == "SuspendedByUser"


def test_a_user_resumes_by_taking_the_suspend_back() -> None:
    asked = suspended_row(
        reason="SuspendedByUser", requested=Requested.SUSPEND, requested_reason="User"
    )
    act = first(world(row=asked, pods=()))
    assert isinstance(act, SetRequested)
    assert act.requested is Requested.RUN
    assert kinds(waiting(reason="SuspendedByUser")) == ("Mint", "CreatePod")


class TestModelUnavailable:
    """H34: a key was rotated, the provider is away; three days of work are not lost."""

    def test_h34_waits_as_long_as_it_asked(self) -> None:
        at = waiting(reason="ModelUnavailable", retry_at=ahead(seconds=30))
        assert acts(at) == ()
        assert plan(at).requeue_after == pytest.approx(30, abs=0.1)

    def test_h34_resumes_by_itself(self) -> None:
        at = waiting(reason="ModelUnavailable", retry_at=ago(seconds=1))
        assert kinds(at) == ("Mint", "CreatePod")

    def test_h34_does_not_spin_when_it_gave_no_time(self) -> None:
        fresh = waiting(reason="ModelUnavailable", suspended_at=ago(seconds=1))
        assert acts(fresh) == ()
        assert plan(fresh).requeue_after is not None
        assert kinds(waiting(reason="ModelUnavailable", suspended_at=ago(minutes=2))) == (
            "Mint",
            "CreatePod",
        )

    def test_h34_counts_against_nothing(self) -> None:
        at = waiting(
            reason="ModelUnavailable", retry_at=ago(seconds=1), app_faults=6, infra_faults=20
        )
        assert kinds(at) == ("Mint", "CreatePod")


@pytest.mark.parametrize(
    ("limits", "resumes"),
    [
        ({}, True),
        ({"turns": 10}, False),
        ({"turns": 11}, True),
        ({"tokens": 1000}, False),
        ({"tokens": 1001}, True),
        ({"costUSD": "2"}, False),
        ({"costUSD": "2.000001"}, True),
        ({"turns": 11, "tokens": 1000}, False),
        ({"turns": 11, "tokens": 1001, "costUSD": "3"}, True),
        ({"activeDeadlineSeconds": 3600}, True),
    ],
)
def test_h35_h68_resumes_only_when_the_budget_in_force_is_above_what_was_used(
    limits: dict[str, Any], resumes: bool
) -> None:
    at = waiting(spec(limits=limits, pricing=PRICES), reason="BudgetExceeded", totals=USED)
    assert ("Mint" in kinds(at)) is resumes


def test_h36_a_cost_budget_that_nobody_can_price_is_spent() -> None:
    """Budgets may change and prices may not: it would never trip."""
    at = waiting(spec(limits={"costUSD": "999"}), reason="BudgetExceeded")
    assert kinds(at) == ()
    status = plan(at).status
    assert status is not None
    assert "price of the model is not known" in status.message


def test_h68_the_pods_own_budget_suspension_does_not_spin() -> None:
    """requested = run, state Suspended: mint, suspend, mint … must not happen."""
    at = waiting(spec(limits={"turns": 10}), reason="BudgetExceeded", totals=USED)
    made = plan(at)
    assert made.actions == ()
    assert made.requeue_after is None


def test_h35_a_raised_budget_is_told_first_and_then_resumed() -> None:
    what = spec(limits={"turns": 20})
    known = suspended_row(reason="BudgetExceeded", totals=USED, budgets=Budgets(turns=10))
    assert kinds(world(row=known, spec=what, pods=())) == ("SetRequested",)
    assert kinds(waiting(what, reason="BudgetExceeded", totals=USED)) == ("Mint", "CreatePod")


def test_with_on_exceeded_fail_the_runner_itself_ends_it() -> None:
    what = spec(limits={"turns": 10, "onExceeded": "Fail"})
    assert kinds(waiting(what, totals=USED)) == ("Mint", "CreatePod")


def test_active_time_used_up_stays_suspended_until_raised() -> None:
    what = spec(limits={"activeDeadlineSeconds": 60})
    asked = suspended_row(
        reason="BudgetExceeded",
        active_ms=61_000,
        budgets=budgets_of(what),
        requested=Requested.SUSPEND,
        requested_reason="Budget",
    )
    assert acts(world(row=asked, spec=what, pods=())) == ()
    raised = spec(limits={"activeDeadlineSeconds": 120})
    act = first(world(row=asked, spec=raised, pods=()))
    assert isinstance(act, SetRequested)
    assert (act.requested, act.budgets.active_seconds) == (Requested.RUN, 120)


def test_an_idle_suspended_run_wakes_nobody() -> None:
    at = world(row=suspended_row(pending_approvals=(request(),)), approvals=(approval(),), pods=())
    made = plan(at)
    assert (made.actions, made.requeue_after) == ((), None)


def test_only_a_suspended_run_is_resumed() -> None:
    assert "resumed" not in [getattr(act, "because", "") for act in acts(world(row=row()))]
