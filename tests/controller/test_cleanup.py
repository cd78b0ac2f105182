"""Pods, Secrets and finished objects that are not needed any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.controller.worlds import (
    NOW,
    OTHER_UID,
    acts,
    ago,
    attempt,
    charged_row,
    ended_pod,
    kinds,
    pod,
    request,
    row,
    run,
    spec,
    suspended_row,
    terminal_row,
    unclaimed_row,
    world,
)

from agentrun.api import AgentRunStatus
from agentrun.controller.actions import DeletePod, DeleteRun, PurgeSecrets
from agentrun.controller.plan.plan import plan
from agentrun.store.rows import RunState

SHOWN = AgentRunStatus(completion_time=NOW)


def second(**more: Any) -> Any:
    """The second attempt owns the run."""
    first = attempt(1, ended_at=ago(minutes=10), cause="LeaseExpired", fault="Infra")
    base = row(attempt=2, fence=2, holder="pod-2", attempts=(first, attempt(2)))
    return replace(base, **more)


def test_pods_of_older_fences_are_deleted() -> None:
    assert acts(world(row=second(), pods=(pod(1), pod(2)))) == (DeletePod(pod(1).key, "pod-1"),)


@pytest.mark.parametrize(
    "not_ours",
    [
        pod(1, owner_uid=OTHER_UID),
        pod(1, owner_uid=None),
        pod(1, installation="elsewhere"),
        pod(1, fence=None),
        pod(1, deleting=True),
        pod(9, fence=9),
    ],
)
def test_h22_only_what_is_provably_ours_and_older(not_ours: Any) -> None:
    assert acts(world(row=second(), pods=(not_ours, pod(2)))) == ()


def test_the_pod_that_owns_the_run_is_never_deleted() -> None:
    assert acts(world(pods=(pod(),))) == ()


@pytest.mark.parametrize(
    ("the_row", "the_pod", "deleted"),
    [
        # A settled attempt's pod exits by itself; it gets its grace period.
        (suspended_row(suspended_at=ago(seconds=5)), pod(), False),
        (suspended_row(suspended_at=ago(seconds=61)), pod(), True),
        (suspended_row(suspended_at=ago(seconds=5)), ended_pod(0), True),
        (terminal_row(finished_at=ago(seconds=5)), pod(), False),
        (terminal_row(finished_at=ago(seconds=61)), pod(), True),
        (terminal_row(), ended_pod(0), True),
        # An attempt in its back-off has ended.
        (charged_row(), ended_pod(143), True),
    ],
)
def test_a_settled_attempts_pod(the_row: Any, the_pod: Any, deleted: bool) -> None:
    held = (
        replace(the_row, pending_approvals=(request(),)) if not the_row.state.terminal else the_row
    )
    assert ("DeletePod" in kinds(world(row=held, pods=(the_pod,)))) is deleted


class TestLastFailedPod:
    """Kept for an hour, so that somebody can look at it."""

    FAILED = attempt(1, ended_at=ago(minutes=59), cause="RunnerFailed", fault="App", exit_code=1)

    def test_it_is_kept(self) -> None:
        made = plan(
            world(row=terminal_row(RunState.FAILED, attempts=(self.FAILED,)), pods=(ended_pod(1),))
        )
        assert made.actions == ()
        assert made.requeue_after == pytest.approx(60, abs=0.1)

    def test_for_an_hour(self) -> None:
        old = replace(self.FAILED, ended_at=ago(minutes=60))
        at = world(row=terminal_row(RunState.FAILED, attempts=(old,)), pods=(ended_pod(1),))
        assert kinds(at) == ("DeletePod",)

    def test_only_the_last_one(self) -> None:
        both = (self.FAILED, replace(self.FAILED, attempt=2, fence=2))
        failed = charged_row(attempt=2, fence=2, attempts=both)
        at = world(row=failed, pods=(ended_pod(1), ended_pod(1, number=2)))
        assert [act.uid for act in acts(at)] == ["pod-1"]  # type: ignore[union-attr]

    def test_while_the_next_attempt_runs(self) -> None:
        two = second(attempts=(self.FAILED, attempt(2)))
        assert acts(world(row=two, pods=(ended_pod(1), pod(2)))) == ()

    @pytest.mark.parametrize("code", [0, 143])
    def test_one_that_did_not_fail_is_not_kept(self, code: int) -> None:
        two = second(attempts=(self.FAILED, attempt(2)))
        assert kinds(world(row=two, pods=(ended_pod(code), pod(2)))) == ("DeletePod",)

    def test_one_that_still_runs_is_not_kept(self) -> None:
        two = second(attempts=(self.FAILED, attempt(2)))
        assert kinds(world(row=two, pods=(pod(1), pod(2)))) == ("DeletePod",)


@pytest.mark.parametrize(
    ("the_row", "purged"),
    [
        (row(), True),
        (unclaimed_row(), False),  # a pod may still need it
        (suspended_row(pending_approvals=(request(),)), True),
        (terminal_row(), True),
    ],
)
def test_secrets_go_after_the_claim_and_at_the_end(the_row: Any, purged: bool) -> None:
    the_pod = (pod(),) if the_row.state is RunState.ACTIVE else ()
    at = world(row=the_row, pods=the_pod, stray_secrets=True)
    assert (PurgeSecrets() in acts(at)) is purged
    assert PurgeSecrets() not in acts(replace(at, stray_secrets=False))


class TestTtl:
    """By the database's clock, never unless asked for, and only once the end was shown."""

    KEPT = spec()
    ASKED = spec(ttlSecondsAfterFinished=600)

    @pytest.mark.parametrize(("seconds", "deleted"), [(599, False), (600, True), (10**6, True)])
    def test_it_counts_from_completion(self, seconds: int, deleted: bool) -> None:
        over = terminal_row(finished_at=ago(seconds=seconds), generation=1)
        at = world(run=run(self.ASKED, status=SHOWN), spec=self.ASKED, row=over, pods=())
        assert (DeleteRun() in acts(at)) is deleted

    def test_h11_no_ttl_unless_asked_for(self) -> None:
        old = terminal_row(finished_at=ago(days=3000))
        assert acts(world(run=run(self.KEPT, status=SHOWN), row=old, pods=())) == ()

    def test_the_end_is_shown_first(self) -> None:
        now = spec(ttlSecondsAfterFinished=0)
        at = world(run=run(now), spec=now, row=terminal_row(), pods=())
        assert DeleteRun() not in acts(at)
        assert DeleteRun() in acts(replace(at, run=run(now, status=SHOWN)))

    def test_h11_a_live_run_is_never_deleted(self) -> None:
        now = spec(ttlSecondsAfterFinished=0)
        for the_row in (row(), suspended_row(), unclaimed_row()):
            at = world(run=run(now, status=SHOWN), spec=now, row=the_row)
            assert DeleteRun() not in acts(at)

    def test_it_is_waited_for(self) -> None:
        over = terminal_row(finished_at=ago(seconds=500))
        made = plan(world(run=run(self.ASKED, status=SHOWN), spec=self.ASKED, row=over, pods=()))
        assert made.requeue_after == pytest.approx(100, abs=0.1)
        assert not made.settled


def test_a_finished_run_with_nothing_left_is_settled() -> None:
    made = plan(world(row=terminal_row(), pods=()))
    assert (made.actions, made.requeue_after, made.settled) == ((), None, True)


@pytest.mark.parametrize("the_row", [suspended_row(pending_approvals=(request(),)), terminal_row()])
def test_a_pod_of_a_later_fence_means_that_the_row_is_old(the_row: Any) -> None:
    """Another operator has minted meanwhile: its pod is not a leftover."""
    assert "DeletePod" not in kinds(world(row=the_row, pods=(ended_pod(1, number=9),)))
