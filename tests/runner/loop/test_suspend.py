"""Suspend: what is under way settles and is committed, then the pod is given back."""

from __future__ import annotations

from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.runner.exits import Exit
from agentrun.store.rows import Budgets, Requested


def stage() -> Stage:
    return Stage(
        make_spec(), lambda turn: (asks("look", turn=0), asks("fix", turn=1), text("k"))[turn]
    )


def suspend(made: Stage, reason: str = "User") -> None:
    made.db.requested, made.db.requested_reason = Requested.SUSPEND, reason


def test_a_call_under_way_is_committed_first_and_nothing_new_starts() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.seconds = {"look": 40}
        made.later(10, lambda: suspend(made))
        ending = await made.attempt()

        assert ending.code is Exit.DONE
        assert made.db.state == "Suspended"
        assert made.db.reason == "SuspendedByUser"
        assert made.db.kinds[-2:] == ["tool/result", "run/suspend"]
        assert len(made.model.requests) == 1

        made.db.requested = Requested.RUN
        await made.attempt()
        assert made.db.state == "Succeeded"
        assert set(made.tools.effects.values()) == {1}

    run(scene())


def test_a_reply_under_way_is_committed_and_its_calls_are_not_started() -> None:
    async def scene() -> None:
        made = stage()
        made.model.seconds = 40
        made.later(10, lambda: suspend(made))
        await made.attempt()

        assert made.db.kinds[-2:] == ["assistant/message", "run/suspend"]
        assert not made.tools.requests

    run(scene())


def test_a_wish_that_is_taken_back_in_time_changes_nothing() -> None:
    async def scene() -> None:
        made = stage()
        made.tools.seconds = {"look": 40}
        made.later(10, lambda: suspend(made))
        made.later(20, lambda: setattr(made.db, "requested", Requested.RUN))
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert made.db.attempt == 1

    run(scene())


def test_a_spent_budget_suspends_and_a_raised_one_goes_on() -> None:
    async def scene() -> None:
        made = stage()
        made.db.budgets = Budgets(turns=1)
        ending = await made.attempt()

        assert ending.code is Exit.DONE
        assert made.db.state == "Suspended"
        assert made.db.reason == "BudgetExceeded"
        assert len(made.model.requests) == 1
        assert set(made.tools.effects.values()) == {1}, "the calls of a paid reply are made"

        made.db.budgets = Budgets(turns=10)
        await made.attempt()
        assert made.db.state == "Succeeded"
        assert made.db.totals.turns == 3

    run(scene())


def test_a_spent_budget_fails_the_run_where_asked() -> None:
    async def scene() -> None:
        made = Stage(make_spec(limits={"onExceeded": "Fail"}), lambda turn: asks("look", turn=turn))
        made.db.budgets = Budgets(tokens=30)
        ending = await made.attempt()

        assert ending.code is Exit.FAILED
        assert made.db.state == "Failed"
        assert made.db.reason == "BudgetExceeded"

    run(scene())


def test_a_budget_raised_during_the_attempt_is_seen() -> None:
    async def scene() -> None:
        made = stage()
        made.db.budgets = Budgets(turns=1)
        made.tools.seconds = {"look": 40}
        made.later(10, lambda: setattr(made.db, "budgets", Budgets(turns=10)))
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert made.db.attempt == 1

    run(scene())


def test_approvals_give_the_pod_back_and_decisions_go_on_in_a_new_attempt() -> None:
    async def scene() -> None:
        gate = make_spec(toolPolicies=[{"tools": ["ops.fix"], "approval": "Always"}])
        made = Stage(gate, lambda turn: (asks("fix", "look", turn=0), text("done"))[turn])
        ending = await made.attempt()

        assert ending.code is Exit.DONE
        assert made.db.state == "Suspended"
        assert made.db.reason == "ApprovalPending"
        assert made.tools.order == ["look"], "a sibling without a gate runs at once"
        (question,) = made.db.approvals.values()
        assert question.scope == "Tool"

        made.db.decide("Approve")
        await made.attempt()
        assert made.db.state == "Succeeded"
        assert made.tools.order == ["look", "fix"]
        assert len(made.model.requests) == 2

    run(scene())


def test_a_denied_call_is_never_sent() -> None:
    async def scene() -> None:
        gate = make_spec(toolPolicies=[{"tools": ["ops.fix"], "approval": "Always"}])
        made = Stage(gate, lambda turn: (asks("fix", turn=0), text("done"))[turn])
        await made.attempt()
        made.db.decide("Deny", "not today")
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert not made.tools.requests
        assert "not today" in str(made.db.transcript)

    run(scene())
