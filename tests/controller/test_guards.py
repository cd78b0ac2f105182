"""When nothing may be done, opening and starting (H20, H21, H29, H36)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.controller.worlds import (
    SETTINGS,
    acts,
    charged_row,
    confirmed,
    ended_pod,
    expired_row,
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

from agentrun.api import AgentRunStatus, CheckpointStatus, Reason
from agentrun.controller.actions import CreatePod, Finish, Mint, OpenRun
from agentrun.controller.plan.plan import plan
from agentrun.controller.world import Trouble

EVERY_ROW = [
    None,
    pending_row(),
    unclaimed_row(),
    row(),
    expired_row(),
    charged_row(),
    suspended_row(),
    terminal_row(),
]


@pytest.mark.parametrize("the_row", EVERY_ROW)
def test_h21_another_installations_run_is_left_alone(the_row: Any) -> None:
    theirs = spec(controllerName="other")
    made = plan(world(run=run(theirs), spec=theirs, row=the_row, pods=(ended_pod(1),)))
    assert (made.actions, made.status, made.requeue_after) == ((), None, None)


@pytest.mark.parametrize("the_row", [r for r in EVERY_ROW if r is not None])
def test_h20_another_installations_row_is_left_alone(the_row: Any) -> None:
    made = plan(world(row=replace(the_row, installation="other"), pods=(ended_pod(1),)))
    assert (made.actions, made.status) == ((), None)


def test_a_named_controller_works_on_its_own_runs() -> None:
    ours = spec(controllerName="blue")
    at = world(
        run=run(ours), spec=None, row=None, settings=replace(SETTINGS, controller_name="blue")
    )
    assert kinds(replace(at, spec=None)) == ("OpenRun",)


@pytest.mark.parametrize("the_row", EVERY_ROW)
def test_h14_before_the_caches_have_synced_nothing_is_planned(the_row: Any) -> None:
    blind = replace(world().freshness, synced=False)
    made = plan(world(freshness=blind, row=the_row, pods=()))
    assert (made.actions, made.status) == ((), None)


def test_while_the_store_is_away_pods_and_phase_are_kept() -> None:
    before = plan(world()).status
    made = plan(world(run=run(status=before), row=None, spec=None, store_up=False, pods=()))
    assert made.actions == ()
    assert made.status is not None
    assert before is not None
    assert (made.status.phase, made.status.attempt) == (before.phase, before.attempt)
    unhealthy = [c for c in made.status.conditions if c.type == "CheckpointHealthy"]
    assert [(c.status, c.reason) for c in unhealthy] == [("False", "StoreUnavailable")]
    others = [c for c in made.status.conditions if c.type != "CheckpointHealthy"]
    assert others == [c for c in before.conditions if c.type != "CheckpointHealthy"]


def test_a_new_run_says_that_the_store_is_away() -> None:
    made = plan(world(row=None, spec=None, store_up=False, pods=()))
    assert made.actions == ()
    assert made.status is not None
    assert (made.status.phase, made.status.reason) == ("Pending", "StoreUnavailable")


class TestRegressed:
    """Never silently fresh: the store lost what it had acknowledged."""

    KNOWN = AgentRunStatus(attempt=3, fence=4, observed_generation=1, phase="Running")

    def test_a_missing_row_after_an_attempt_waits(self) -> None:
        made = plan(world(run=run(status=self.KNOWN), row=None, spec=None, pods=()))
        assert made.actions == ()
        assert made.status is not None
        assert (made.status.phase, made.status.reason) == ("Pending", "StoreRegressed")

    @pytest.mark.parametrize("the_row", [row(), expired_row(), unclaimed_row(), suspended_row()])
    def test_a_fence_below_the_shown_one_waits(self, the_row: Any) -> None:
        for the_pods in ((), (ended_pod(1),)):
            made = plan(world(run=run(status=self.KNOWN), row=the_row, pods=the_pods))
            assert made.actions == ()
            assert made.status is not None
            assert (made.status.phase, made.status.reason) == ("Pending", "StoreRegressed")

    @pytest.mark.parametrize("the_row", [row(), expired_row(), unclaimed_row(), suspended_row()])
    def test_a_commit_below_the_shown_one_waits(self, the_row: Any) -> None:
        """A failover lost commits within one attempt: its successor would do them again."""
        reached = CheckpointStatus(seq=the_row.seq + 1, snapshot_seq=0)
        known = AgentRunStatus(attempt=1, fence=1, observed_generation=1, checkpoint=reached)
        for the_pods in ((), (ended_pod(75),)):
            made = plan(world(run=run(status=known), row=the_row, pods=the_pods))
            assert made.actions == ()
            assert made.status is not None
            assert (made.status.phase, made.status.reason) == ("Pending", "StoreRegressed")
            assert made.status.checkpoint == reached

    def test_it_stays_visible_however_often_it_is_looked_at(self) -> None:
        """The shown fence is what gives the loss away, so it is not overwritten by the lower one."""
        for the_row in (None, row()):
            shown: AgentRunStatus | None = self.KNOWN
            for _ in range(3):
                made = plan(world(run=run(status=shown), row=the_row, pods=()))
                assert made.actions == ()
                shown = made.status
                assert shown is not None
                assert (shown.attempt, shown.fence) == (3, 4)

    def test_a_store_that_is_level_goes_on(self) -> None:
        level = row(fence=4, attempt=3, attempts=())
        assert plan(world(run=run(status=self.KNOWN), row=level)).status.reason != "StoreRegressed"  # type: ignore[union-attr]

    def test_a_run_that_never_had_an_attempt_is_opened(self) -> None:
        fresh = AgentRunStatus(observed_generation=1)
        assert kinds(world(run=run(status=fresh), row=None, spec=None, pods=())) == ("OpenRun",)


@pytest.mark.parametrize("make", [pending_row, unclaimed_row, row, expired_row, suspended_row])
def test_h29_a_run_captured_by_a_newer_release_waits(make: Any) -> None:
    at = world(row=make(), unreadable=Reason.CHECKPOINT_NEWER, pods=(ended_pod(1),))
    made = plan(at)
    assert made.actions == ()
    assert made.status is not None
    assert (made.status.phase, made.status.reason) == ("Pending", "CheckpointNewer")


def test_a_captured_spec_that_is_corrupt_ends_the_run() -> None:
    (act,) = acts(world(unreadable=Reason.CHECKPOINT_CORRUPT))
    assert isinstance(act, Finish)
    assert act.reason == "CheckpointCorrupt"


class TestOpening:
    """From the object to the first attempt."""

    def test_a_new_run_is_opened(self) -> None:
        assert acts(world(row=None, spec=None, pods=())) == (OpenRun(),)

    def test_an_opened_run_is_started(self) -> None:
        assert acts(world(row=pending_row(), pods=()))[:2] == (Mint("start"), CreatePod())

    def test_h36_an_invalid_spec_is_shown_and_nothing_is_recorded(self) -> None:
        problem = "spec.limits.costUSD: the price of model m is not known"
        made = plan(world(row=None, spec=None, pods=(), problems=(problem, "second")))
        assert made.actions == ()
        assert made.status is not None
        assert (made.status.phase, made.status.reason) == ("Failed", "InvalidSpec")
        assert made.status.message == f"{problem}; second"

    def test_a_spec_that_becomes_valid_is_opened(self) -> None:
        """A budget taken back, a price added by the administrator."""
        shown = AgentRunStatus(observed_generation=1, phase="Failed", reason="InvalidSpec")
        assert kinds(world(run=run(status=shown), row=None, spec=None, pods=())) == ("OpenRun",)

    def test_problems_found_later_do_not_touch_a_run_that_is_under_way(self) -> None:
        assert acts(world(problems=("the administrator has changed his mind",))) == ()

    def test_what_the_spec_refers_to_is_waited_for(self) -> None:
        missing = Trouble(Reason.CONTAINER_CONFIG, "ConfigMap p has no key prompt", 2.0)
        made = plan(world(row=None, spec=None, pods=(), trouble=missing))
        assert made.actions == ()
        assert made.requeue_after == pytest.approx(2, abs=0.1)
        assert made.status is not None
        assert (made.status.phase, made.status.reason) == ("Pending", "ContainerConfig")


@pytest.mark.parametrize("the_row", EVERY_ROW)
def test_the_phase_is_never_read_back(the_row: Any) -> None:
    """Any phase in the old status makes the same plan."""
    for the_pods in ((), (ended_pod(1),)):
        plans = {
            plan(
                world(
                    run=run(status=AgentRunStatus(phase=phase, observed_generation=1)),
                    row=the_row,
                    pods=the_pods,
                    confirmed=confirmed(None),
                )
            ).actions
            for phase in ("Pending", "Running", "Suspended", "Succeeded", "Failed", "Cancelled")
        }
        assert len(plans) == 1
