"""Suspend and cancel of an owned run (H27, H61)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.worlds import (
    acts,
    ago,
    charged_row,
    confirmed,
    ended_pod,
    first,
    kinds,
    pending_row,
    pod,
    row,
    spec,
    suspended_row,
    unclaimed_row,
    world,
)

from agentrun.controller.actions import ConfirmPod, Finish, Suspend
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import Requested, RunState

CANCEL, SUSPEND = Requested.CANCEL, Requested.SUSPEND


def asked(make: Any = row, requested: Requested = CANCEL, reason: str = "User", **more: Any) -> Any:
    """A row of which that is wanted, and known to be."""
    return make(requested=requested, requested_reason=reason, **more)


def stopping(the_row: Any, *, age: float = 0.0, reason: str = "User", **more: Any) -> Any:
    """Its world: the spec says the same."""
    wants = {"cancel": True} if the_row.requested is CANCEL else {"suspend": True}
    if reason == "Budget":
        wants = {"limits": {"activeDeadlineSeconds": 60}}
        more.setdefault("row", the_row)
    what = spec(**wants)
    return world(**{"row": the_row, "spec": what, "requested_age": age, **more})


@pytest.mark.parametrize("requested", [CANCEL, SUSPEND])
@pytest.mark.parametrize("age", [0.0, 59.9])
def test_h27_the_runner_is_waited_for(requested: Requested, age: float) -> None:
    assert acts(stopping(asked(requested=requested), age=age)) == ()


def test_h27_a_hung_tool_does_not_hold_a_cancel_for_ever() -> None:
    act = first(stopping(asked(), age=60.0))
    assert act == Finish(
        RunState.CANCELLED,
        "CancelledByUser",
        "spec.cancel was set",
        AttemptEnd("NotSettled", "None"),
    )


def test_the_wait_is_the_pods_grace_and_thirty_seconds() -> None:
    slow = {"cancel": True, "pod": {"terminationGracePeriodSeconds": 300}}
    at = world(row=asked(), spec=spec(**slow), requested_age=329.9)
    assert acts(at) == ()
    assert kinds(world(row=asked(), spec=spec(**slow), requested_age=330.0)) == ("Finish",)


@pytest.mark.parametrize(
    ("reason", "state", "shown"),
    [
        ("User", RunState.CANCELLED, "CancelledByUser"),
        ("Deadline", RunState.FAILED, "DeadlineExceeded"),
        ("Budget", RunState.FAILED, "BudgetExceeded"),
    ],
)
@pytest.mark.parametrize("make", [row, unclaimed_row, pending_row, suspended_row, charged_row])
def test_h27_the_reason_decides_what_the_end_is_called(
    reason: str, state: RunState, shown: str, make: Any
) -> None:
    at = world(row=asked(make, reason=reason), spec=spec(cancel=True), requested_age=1e6, pods=())
    found = [act for act in _to_the_end(at) if isinstance(act, Finish)]
    assert [(act.state, act.reason) for act in found] == [(state, shown)]


def _to_the_end(at: Any) -> Any:
    """Through the live read, if one is asked for."""
    from dataclasses import replace

    planned = acts(at)
    if planned and isinstance(planned[0], ConfirmPod):
        return acts(replace(at, confirmed=confirmed(None)))
    return planned


def test_a_passed_deadline_is_not_waited_for_again_after_a_restart() -> None:
    """The deadline itself says since when the runner should have stopped."""
    what = spec(limits={"deadlineSeconds": 3600})
    late = asked(reason="Deadline", created_at=ago(seconds=3600 + 61))
    assert kinds(world(row=late, spec=what, requested_age=0.0)) == ("Finish",)


@pytest.mark.parametrize("requested", [CANCEL, SUSPEND])
def test_an_attempt_that_never_claimed_is_not_waited_for(requested: Requested) -> None:
    """It has done nothing, and a raised fence keeps it from claiming (H61)."""
    at = stopping(asked(unclaimed_row, requested), pods=(pod(phase="Pending"),))
    assert kinds(at) == ("Finish" if requested is CANCEL else "Suspend",)


@pytest.mark.parametrize("requested", [CANCEL, SUSPEND])
def test_neither_is_one_whose_end_was_seen(requested: Requested) -> None:
    act = first(stopping(asked(requested=requested), pods=(ended_pod(143),)))
    assert isinstance(act, Finish | Suspend)
    assert act.end == AttemptEnd("Drained", "Infra", 143)


def test_nor_one_that_is_gone_by_a_live_get() -> None:
    at = stopping(asked(requested=SUSPEND), pods=())
    assert kinds(at) == ("ConfirmPod",)
    gone = stopping(asked(requested=SUSPEND), pods=(), confirmed=confirmed(None))
    assert first(gone) == Suspend(
        "SuspendedByUser", "spec.suspend is set", AttemptEnd("PodGone", "Infra")
    )


def test_nor_one_that_is_in_its_backoff() -> None:
    assert first(stopping(asked(charged_row, SUSPEND), pods=())) == Suspend(
        "SuspendedByUser", "spec.suspend is set", None
    )


def test_no_attempt_is_minted_while_it_is_to_stop() -> None:
    for requested in (CANCEL, SUSPEND):
        for make in (row, unclaimed_row, charged_row, suspended_row, pending_row):
            for the_pods in (
                (),
                (pod(),),
                (ended_pod(1),),
                (ended_pod(143),),
                (pod(deleting=True),),
            ):
                planned = kinds(stopping(asked(make, requested), pods=the_pods))
                assert not {"Mint", "CreatePod", "AddSecret", "Charge"} & set(planned)


def test_a_run_that_failed_for_good_while_suspending_is_failed() -> None:
    at = stopping(asked(requested=SUSPEND), pods=(ended_pod(78),))
    assert first(at).state is RunState.FAILED  # type: ignore[union-attr]
    used = asked(requested=SUSPEND, app_faults=6)
    assert first(stopping(used, pods=(ended_pod(1),))).state is RunState.FAILED  # type: ignore[union-attr]


def test_a_cancelled_run_is_cancelled_whatever_its_last_pod_did() -> None:
    for code in (0, 1, 78, 79, 137, 143):
        act = first(stopping(asked(app_faults=6), pods=(ended_pod(code),)))
        assert isinstance(act, Finish)
        assert act.state is RunState.CANCELLED


def test_suspended_before_the_first_mint() -> None:
    at = stopping(asked(pending_row, SUSPEND), pods=())
    assert acts(at) == ()
    from agentrun.controller.status import project

    status = project(at)
    assert status is not None
    assert (status.phase, status.reason) == ("Suspended", "SuspendedByUser")


def test_h61_late_pods_of_the_old_fence_are_deleted_afterwards() -> None:
    settled = suspended_row(
        fence=2,
        requested=SUSPEND,
        requested_reason="User",
        holder=None,
        suspended_at=ago(seconds=1),
    )
    at = world(row=settled, spec=spec(suspend=True), pods=(pod(1),))
    assert kinds(at) == ("DeletePod",)
