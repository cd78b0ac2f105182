"""An attempt that nobody has claimed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.controller.worlds import (
    OTHER_UID,
    acts,
    attempt,
    confirmed,
    ended_pod,
    first,
    kinds,
    pod,
    spec,
    unclaimed_row,
    waiting_pod,
    world,
)

from agentrun.api import Reason
from agentrun.cluster.values import PodView
from agentrun.controller.actions import AddSecret, Charge, CreatePod, DeletePod, Mint
from agentrun.controller.world import Trouble
from agentrun.store.port import AttemptEnd

UNCLAIMED = unclaimed_row()


def test_h25_no_pod_in_the_cache_is_confirmed_first() -> None:
    assert kinds(world(row=UNCLAIMED, pods=())) == ("ConfirmPod",)


def test_h25_h65_no_pod_by_a_live_get_means_one_more_secret_and_create() -> None:
    """Never a mint: two operators would re-mint each other's not yet created pods for ever."""
    at = world(row=UNCLAIMED, pods=(), confirmed=confirmed(None))
    assert acts(at) == (AddSecret(), CreatePod(None))


def test_our_pod_found_live_is_adopted_by_doing_nothing() -> None:
    at = world(row=UNCLAIMED, pods=(), confirmed=confirmed(pod(phase="Pending")))
    assert acts(at) == ()


def test_h65_a_pod_being_deleted_is_replaced_uncharged() -> None:
    at = world(row=UNCLAIMED, pods=(pod(deleting=True),))
    assert first(at) == Mint("terminating", AttemptEnd("PodDeleted", "None"))


def test_h65_a_container_that_ended_before_the_claim_is_charged() -> None:
    charge = first(world(row=UNCLAIMED, pods=(ended_pod(1),)))
    assert charge == Charge(AttemptEnd("RunnerFailed", "App", 1), 10_000)


def test_h65_a_preempted_one_is_charged_as_infra_and_replaced_at_once() -> None:
    mint = first(world(row=UNCLAIMED, pods=(ended_pod(137, disrupted=True),)))
    assert mint == Mint("ended", AttemptEnd("Disrupted", "Infra", 137))


@pytest.mark.parametrize(
    "the_pod",
    [
        pod(phase="Pending", runner_running=False),
        pod(),
        waiting_pod("ImagePullBackOff"),
        waiting_pod("Unschedulable"),
        waiting_pod("CreateContainerConfigError"),
    ],
)
def test_h16_never_by_time(the_pod: PodView) -> None:
    """It may pull its image for as long as the start deadline allows, and later for ever."""
    later = unclaimed_row(
        attempt=2, fence=2, first_commit_at=UNCLAIMED.created_at, attempts=(attempt(1), attempt(2))
    )
    moved = replace(the_pod, key=pod(2).key, fence=2, attempt=2)
    assert acts(world(row=later, pods=(moved,))) == ()


@pytest.mark.parametrize(
    "stranger",
    [
        pod(owner_uid=OTHER_UID),
        pod(owner_uid=None, fence=None, installation=None),
        pod(installation="elsewhere"),
        pod(fence=None),
    ],
)
def test_h22_a_name_taken_by_somebody_else_is_never_touched(stranger: PodView) -> None:
    at = world(row=UNCLAIMED, pods=(stranger,), confirmed=confirmed(stranger))
    assert acts(at) == ()
    status = first_status(at)
    assert (status.phase, status.reason) == ("Pending", "PodNameConflict")


def test_h22_a_leftover_that_is_provably_ours_is_deleted() -> None:
    old = pod(1, fence=1, uid="old")
    two = unclaimed_row(fence=2)
    at = world(row=two, pods=(old,), confirmed=confirmed(old))
    assert acts(at) == (DeletePod(old.key, "old"),)


def test_h21_a_pod_of_another_installation_is_not_adopted() -> None:
    theirs = pod(installation="elsewhere")
    at = world(row=UNCLAIMED, pods=(theirs,))
    assert kinds(at) == ("ConfirmPod",)


def test_refused_creation_waits_and_is_tried_again() -> None:
    trouble = Trouble(Reason.QUOTA_EXCEEDED, "exceeded quota: pods", 4.0)
    at = world(row=UNCLAIMED, pods=(), trouble=trouble, confirmed=confirmed(None))
    assert acts(at) == ()
    again = replace(at, trouble=replace(trouble, retry_in=0.0))
    assert acts(again) == (AddSecret(), CreatePod(None))


def test_the_node_of_a_lost_pod_is_avoided_after_an_operators_restart_too() -> None:
    lost = attempt(1, ended_at=UNCLAIMED.created_at, cause="LeaseExpired", fault="Infra", node=None)
    two = unclaimed_row(
        attempt=2,
        fence=2,
        first_commit_at=UNCLAIMED.created_at,
        attempts=(lost, attempt(2, claimed_at=None)),
    )
    stuck = pod(1, deleting=True, node="n7")
    at = world(row=two, pods=(stuck,), confirmed=confirmed(None, number=2))
    assert acts(at) == (AddSecret(), CreatePod("n7"))


def test_a_spec_without_changes_makes_the_same_plan() -> None:
    assert acts(world(row=UNCLAIMED, pods=())) == acts(world(row=UNCLAIMED, pods=(), spec=spec()))


def first_status(at):  # type: ignore[no-untyped-def]
    from agentrun.controller.status import project

    return project(at)
