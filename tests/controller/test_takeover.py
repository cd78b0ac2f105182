"""Takeover of a claimed fence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.controller.worlds import (
    OLD_ENOUGH,
    acts,
    ahead,
    attempt,
    confirmed,
    ended_pod,
    expired_row,
    first,
    kinds,
    pod,
    request,
    row,
    spec,
    suspended_row,
    terminal_row,
    unclaimed_row,
    world,
)

from agentrun.cluster.values import PodView
from agentrun.controller.actions import ConfirmPod, CreatePod, Mint
from agentrun.controller.plan.takeover import lease_embargo
from agentrun.controller.world import Freshness, Gap
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import Requested, RunRow, RunState

STRANGER = pod(uid="another-pod")
WAIT_FOR_POD = spec(lease={"onUnreachable": "WaitForPod"})


def test_a_healthy_run_is_left_alone() -> None:
    assert acts(world()) == ()


@pytest.mark.parametrize(
    ("the_pod", "cause"),
    [
        (ended_pod(143), "Drained"),
        (ended_pod(137, deleting=True), "PodDeleted"),
        (ended_pod(137, disrupted=True), "Disrupted"),
        (ended_pod(137, killed_by_user=True), "KilledByUser"),
    ],
)
def test_an_observed_end_is_taken_over_at_once(the_pod: PodView, cause: str) -> None:
    mint = first(world(pods=(the_pod,)))
    assert mint == Mint("ended", AttemptEnd(cause, "Infra", the_pod.runner_end.exit_code))  # type: ignore[union-attr]


def test_the_pod_follows_the_mint() -> None:
    assert kinds(world(pods=(ended_pod(143),))) == ("Mint", "CreatePod")


def test_a_pod_that_is_only_stopping_is_waited_for() -> None:
    """It drains: a short call finishes, the tail is committed, the lease released."""
    assert acts(world(pods=(pod(deleting=True),))) == ()


def test_h14_an_absent_pod_is_confirmed_by_a_live_get_first() -> None:
    planned = acts(world(pods=()))
    assert [type(act) for act in planned] == [ConfirmPod]


@pytest.mark.parametrize("answer", [None, STRANGER])
def test_h14_404_or_another_uid_is_a_takeover(answer: PodView | None) -> None:
    mint = first(world(pods=(), confirmed=confirmed(answer)))
    assert mint == Mint("gone", AttemptEnd("PodGone", "Infra"))


def test_h14_a_live_pod_is_left_alone_although_the_cache_has_none() -> None:
    assert acts(world(pods=(), confirmed=confirmed(pod()))) == ()


def test_h14_nothing_from_caches_that_have_not_synced() -> None:
    blind = replace(OLD_ENOUGH, synced=False)
    for the_row in (row(), expired_row(), unclaimed_row(), suspended_row(), None):
        assert acts(world(freshness=blind, row=the_row, pods=())) == ()


def test_another_uid_in_the_cache_is_confirmed_too() -> None:
    assert kinds(world(pods=(STRANGER,))) == ("ConfirmPod",)


def test_a_live_read_beats_the_cache() -> None:
    assert kinds(world(pods=(pod(),), confirmed=confirmed(ended_pod(143)))) == ("Mint", "CreatePod")


@pytest.mark.parametrize(
    "the_row",
    [
        suspended_row(pending_approvals=(request(),)),
        suspended_row(requested=Requested.SUSPEND, requested_reason="User"),
        suspended_row(reason="ModelUnavailable", retry_at=ahead(seconds=60)),
        terminal_row(),
        terminal_row(RunState.REVOKED),
    ],
)
def test_h62_only_in_active(the_row: RunRow) -> None:
    what = spec(suspend=the_row.requested is Requested.SUSPEND)
    for the_pod in ((), (ended_pod(0),), (ended_pod(1),), (ended_pod(137, deleting=True),)):
        at = world(row=the_row, pods=the_pod, spec=what)
        assert set(kinds(at)) <= {"CreateApproval", "Emit", "DeletePod"}


class TestExpiredLease:
    """The pod is there and does not renew."""

    def test_h14_h73_the_pod_is_looked_at_first(self) -> None:
        assert kinds(world(row=expired_row())) == ("ConfirmPod",)

    def test_then_it_is_taken_over_and_its_node_avoided(self) -> None:
        mint, create = acts(world(row=expired_row(), confirmed=confirmed(pod())))[:2]
        assert mint == Mint("lease-expired", AttemptEnd("LeaseExpired", "Infra"))
        assert create == CreatePod(avoid_node="n1")

    def test_h73_an_end_found_by_the_live_get_decides(self) -> None:
        at = world(row=expired_row(), confirmed=confirmed(ended_pod(137, "OOMKilled")))
        assert kinds(at) == ("Charge",)

    def test_a_pod_terminating_for_ever_does_not_hold_the_run(self) -> None:
        stuck = pod(deleting=True)
        mint = first(world(row=expired_row(), pods=(stuck,), confirmed=confirmed(stuck)))
        assert mint == Mint("lease-expired", AttemptEnd("LeaseExpired", "Infra"))

    def test_h16_an_unclaimed_fence_never_expires(self) -> None:
        late = unclaimed_row(lease_expires_at=ahead(seconds=-100), attempts=(attempt(1),))
        at = world(row=late, pods=(pod(phase="Pending", runner_running=False),))
        assert "Mint" not in kinds(at)

    @pytest.mark.parametrize("the_pod", [pod(), pod(deleting=True)])
    def test_wait_for_pod_waits(self, the_pod: PodView) -> None:
        assert acts(world(row=expired_row(), pods=(the_pod,), spec=WAIT_FOR_POD)) == ()

    def test_wait_for_pod_takes_over_once_it_has_ended(self) -> None:
        at = world(row=expired_row(), pods=(ended_pod(143),), spec=WAIT_FOR_POD)
        assert kinds(at) == ("Mint", "CreatePod")

    def test_wait_for_pod_takes_over_once_it_is_gone(self) -> None:
        at = world(row=expired_row(), pods=(), spec=WAIT_FOR_POD, confirmed=confirmed(None))
        assert first(at) == Mint("gone", AttemptEnd("PodGone", "Infra"))

    def test_a_workspace_on_a_volume_waits_for_the_pod(self) -> None:
        volume = spec(toolServers=[{"name": "w", "workspace": {"persistence": "Volume"}}])
        assert acts(world(row=expired_row(), spec=volume)) == ()


@pytest.mark.parametrize(
    ("freshness", "believed"),
    [
        (OLD_ENOUGH, True),
        # H70: the operator's start counts as a failed poll.
        (replace(OLD_ENOUGH, since_start=59.0), False),
        (replace(OLD_ENOUGH, since_start=60.0), True),
        # H15: an outage that is going on, or that ended less than a TTL ago.
        (replace(OLD_ENOUGH, since_poll=None), False),
        (replace(OLD_ENOUGH, since_poll=20.1), False),
        (replace(OLD_ENOUGH, since_poll=20.0), True),
        (replace(OLD_ENOUGH, gaps=(Gap(20.1, 59.0),)), False),
        (replace(OLD_ENOUGH, gaps=(Gap(20.1, 60.0),)), True),
        (replace(OLD_ENOUGH, gaps=(Gap(20.0, 1.0),)), True),
        (replace(OLD_ENOUGH, gaps=(Gap(3000.0, 100.0), Gap(30.0, 10.0))), False),
    ],
)
def test_h15_h70_expired_leases_are_believed_only_when_the_store_was_seen(
    freshness: Freshness, believed: bool
) -> None:
    at = world(row=expired_row(), freshness=freshness, confirmed=confirmed(pod()))
    assert ("Mint" in kinds(at)) is believed
    assert (lease_embargo(freshness, expired_row()) <= 0) is believed


def test_h15_ends_and_deletions_are_believed_during_the_embargo() -> None:
    """Only the expiry says nothing; an observed end is a fact."""
    new = replace(OLD_ENOUGH, since_start=0.0)
    assert kinds(world(freshness=new, pods=(ended_pod(143),))) == ("Mint", "CreatePod")
    gone = world(freshness=new, pods=(), confirmed=confirmed(None))
    assert first(gone) == Mint("gone", AttemptEnd("PodGone", "Infra"))


def test_the_embargo_follows_the_runs_own_ttl() -> None:
    short = replace(OLD_ENOUGH, since_start=10.0)
    assert lease_embargo(short, row(lease_ttl_ms=3_000)) <= 0
    assert lease_embargo(short, row(lease_ttl_ms=60_000)) > 0


def test_h60_the_reason_is_named_so_that_the_statement_can_repeat_it() -> None:
    names = {
        first(world(pods=(ended_pod(143),))).because,  # type: ignore[union-attr]
        first(world(pods=(), confirmed=confirmed(None))).because,  # type: ignore[union-attr]
        first(world(row=expired_row(), confirmed=confirmed(pod()))).because,  # type: ignore[union-attr]
    }
    assert names == {"ended", "gone", "lease-expired"}
