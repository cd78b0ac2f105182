"""Start deadline, wall deadline, and what a pod may wait for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.controller.worlds import (
    acts,
    ago,
    attempt,
    confirmed,
    first,
    kinds,
    pending_row,
    pod,
    row,
    spec,
    suspended_row,
    unclaimed_row,
    waiting_pod,
    world,
)

from agentrun.api import Reason
from agentrun.controller.actions import Finish, SetRequested
from agentrun.controller.plan.plan import plan
from agentrun.controller.world import Freshness, Trouble
from agentrun.store.rows import Requested, RunState


def starting(seconds: float, **more: Any) -> Any:
    """Minted so long ago, nothing committed."""
    began = attempt(1, pod_uid=None, claimed_at=None, started_at=ago(seconds=seconds))
    return unclaimed_row(**{"attempts": (began,), **more})


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("ErrImagePull", "ImagePull"),
        ("ImagePullBackOff", "ImagePull"),
        ("InvalidImageName", "ImagePull"),
        ("CreateContainerConfigError", "ContainerConfig"),
        ("CreateContainerError", "ContainerConfig"),
        ("Unschedulable", "Unschedulable"),
        ("CrashLoopBackOff", "ToolServerUnavailable"),
        ("SchedulingGated", "Queued"),
    ],
)
def test_pending_with_that_reason_and_no_attempt_is_consumed(word: str, reason: str) -> None:
    made = plan(world(row=starting(300), pods=(waiting_pod(word, "because"),)))
    assert made.actions == ()
    assert made.status is not None
    assert (made.status.phase, made.status.reason) == ("Pending", reason)
    assert made.status.message == f"{word}: because"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        (Reason.QUOTA_EXCEEDED, "exceeded quota: pods"),
        (Reason.CONTAINER_CONFIG, "Secret anthropic has no key api-key"),
        (Reason.POD_NAME_CONFLICT, "taken"),
    ],
)
def test_what_cannot_even_be_created_is_said_too(reason: Reason, message: str) -> None:
    made = plan(world(row=starting(300), pods=(), trouble=Trouble(reason, message, 3.0)))
    assert made.status is not None
    assert (made.status.phase, made.status.reason, made.status.message) == (
        "Pending",
        reason,
        message,
    )


def test_h33_before_the_first_commit_the_start_deadline_ends_the_run_and_says_why() -> None:
    late = world(row=starting(600), pods=(waiting_pod("ImagePullBackOff", "no such image"),))
    act = first(late)
    assert isinstance(act, Finish)
    assert (act.state, act.reason) == (RunState.FAILED, "StartDeadlineExceeded")
    assert "ImagePull" in act.message
    assert "no such image" in act.message


def test_an_operator_that_was_away_starts_the_run_instead_of_failing_it() -> None:
    """It died between mint and pod, and came back after more than ten minutes."""
    fresh = Freshness(synced=True, since_start=1.0, since_poll=0.5)
    at = world(row=starting(3000), pods=(), freshness=fresh, confirmed=confirmed(None))
    assert kinds(at) == ("AddSecret", "CreatePod")
    later = replace(fresh, since_start=601.0)
    assert isinstance(first(replace(at, freshness=later)), Finish)


def test_the_start_deadline_also_ends_what_claimed_and_never_committed() -> None:
    claimed = row(first_commit_at=None, attempts=(attempt(1, started_at=ago(seconds=601)),))
    assert kinds(world(row=claimed)) == ("Finish",)
    act = first(world(row=claimed))
    assert isinstance(act, Finish)
    assert "its log says what it waits for" in act.message


def test_a_second_before_it_nothing_happens() -> None:
    assert acts(world(row=starting(599), pods=(waiting_pod("ImagePullBackOff"),))) == ()


def test_the_limit_is_the_runs_own() -> None:
    at = world(
        row=starting(61),
        pods=(waiting_pod("ImagePullBackOff"),),
        spec=spec(limits={"startDeadlineSeconds": 60}),
    )
    assert kinds(at) == ("Finish",)


def test_h33_after_the_first_commit_a_pod_may_wait_for_ever() -> None:
    seventh = starting(86_400, first_commit_at=ago(days=3), attempt=7, fence=7)
    waiting = waiting_pod("Unschedulable")
    at = world(row=seventh, pods=(waiting.__class__(**_as(waiting, number=7)),))
    assert acts(at) == ()


def _as(view: Any, *, number: int) -> dict[str, Any]:
    from dataclasses import fields

    base = {f.name: getattr(view, f.name) for f in fields(view)}
    return {**base, "key": pod(number).key, "fence": number, "attempt": number}


def test_a_gated_pod_is_bounded_by_the_wall_deadline_only() -> None:
    assert acts(world(row=starting(86_400), pods=(waiting_pod("SchedulingGated"),))) == ()


def test_a_replaced_pod_does_not_restart_the_deadline() -> None:
    two = (
        attempt(1, started_at=ago(seconds=700), cause="PodDeleted", ended_at=ago(seconds=10)),
        attempt(2, started_at=ago(seconds=10), claimed_at=None),
    )
    at = world(row=starting(0, attempt=2, fence=2, attempts=two), pods=(pod(2, phase="Pending"),))
    assert kinds(at) == ("Finish",)


def test_waiting_suspended_does_not_use_up_the_deadline() -> None:
    two = (
        attempt(1, started_at=ago(seconds=7000), cause="Suspended", ended_at=ago(seconds=6900)),
        attempt(2, started_at=ago(seconds=10), claimed_at=None),
    )
    at = world(row=starting(0, attempt=2, fence=2, attempts=two), pods=(pod(2, phase="Pending"),))
    assert acts(at) == ()


WALL = spec(limits={"deadlineSeconds": 3600})


@pytest.mark.parametrize("the_row", [row(), pending_row(), suspended_row(), unclaimed_row()])
def test_the_wall_deadline_is_a_cancel_with_its_own_reason(the_row: Any) -> None:
    act = first(world(row=the_row, spec=WALL))
    assert isinstance(act, SetRequested)
    assert (act.requested, act.reason) == (Requested.CANCEL, "Deadline")


@pytest.mark.parametrize("the_row", [row(), pending_row(), suspended_row(), unclaimed_row()])
def test_the_wall_deadline_counts_by_the_databases_clock(the_row: Any) -> None:
    from dataclasses import replace

    young = replace(the_row, created_at=ago(seconds=3599))
    planned = kinds(world(row=young, spec=WALL))
    assert "SetRequested" not in planned


@pytest.mark.parametrize("the_row", [pending_row, suspended_row, unclaimed_row])
def test_h27_without_a_pod_the_outcome_is_written_at_once_as_deadline(the_row: Any) -> None:
    asked = the_row(requested=Requested.CANCEL, requested_reason="Deadline")
    act = first(world(row=asked, spec=WALL))
    assert isinstance(act, Finish)
    assert (act.state, act.reason) == (RunState.FAILED, "DeadlineExceeded")


def test_no_deadline_unless_asked_for() -> None:
    assert acts(world(row=row(created_at=ago(days=3000)))) == ()
