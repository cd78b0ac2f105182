"""Deletion, re-creation, other objects' rows (H22, H23, H24, H64)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from tests.controller.worlds import (
    NAME,
    OTHER_UID,
    UID,
    acts,
    approval,
    charged_row,
    ended_pod,
    expired_row,
    kinds,
    pending_row,
    pod,
    request,
    row,
    run,
    suspended_row,
    terminal_row,
    unclaimed_row,
    world,
)

from agentrun.api import Phase, Reason
from agentrun.api.names import pod_name
from agentrun.cluster.values import ObjectKey
from agentrun.controller.actions import DeleteApproval, DeletePod, Revoke
from agentrun.controller.plan.plan import plan
from agentrun.store.rows import RunState

LIVE = [row(), expired_row(), unclaimed_row(), suspended_row(), pending_row(), charged_row()]
CREATING = {"Mint", "CreatePod", "AddSecret", "OpenRun", "CreateApproval", "Decide", "Charge"}


@pytest.mark.parametrize("the_row", LIVE)
@pytest.mark.parametrize("how", ["deleting", "namespace", "gone"])
def test_h24_revoke_and_create_nothing(the_row: Any, how: str) -> None:
    more: dict[str, Any] = {
        "deleting": {"run": run(deleting=True)},
        "namespace": {"namespace_terminating": True},
        "gone": {"run": None, "gone_uid": UID},
    }[how]
    for the_pods in ((), (pod(),), (ended_pod(1),), (ended_pod(143),)):
        at = world(row=the_row, pods=the_pods, approvals=(approval(),), **more)
        planned = acts(at)
        reason = "NamespaceTerminating" if how == "namespace" else "Deleted"
        assert planned[0] == Revoke(UID, UID, reason)
        assert not CREATING & set(kinds(at))
        assert plan(at).status is None


@pytest.mark.parametrize("how", [{"run": run(deleting=True)}, {"run": None, "gone_uid": UID}])
def test_h24_no_row_means_nothing_is_opened(how: dict[str, Any]) -> None:
    assert acts(world(row=None, pods=(), **how)) == ()


def test_pods_of_a_deleted_run_are_stopped_once() -> None:
    at = world(run=run(deleting=True), pods=(pod(), pod(2, deleting=True)))
    assert acts(at)[1:] == (DeletePod(pod().key, "pod-1"),)


def test_h22_only_ours() -> None:
    strangers = (pod(owner_uid=OTHER_UID), pod(2, installation="elsewhere"))
    assert kinds(world(run=run(deleting=True), pods=strangers)) == ("Revoke",)


@pytest.mark.parametrize("state", [s for s in RunState if s.terminal])
def test_a_finished_run_is_not_revoked(state: RunState) -> None:
    assert acts(world(run=run(deleting=True), row=terminal_row(state), pods=())) == ()


def test_h64_a_deletion_seen_late_revokes_only_its_own_object() -> None:
    adopted = row(object_uid=OTHER_UID)
    assert acts(world(run=None, gone_uid=UID, row=adopted, pods=())) == ()


@pytest.mark.parametrize("make", [row, suspended_row, pending_row, expired_row, charged_row])
def test_h64_another_objects_row_is_left_alone(make: Any) -> None:
    assert acts(world(row=make(object_uid=OTHER_UID))) == ()


def test_h23_a_recreated_run_never_needs_its_predecessors_pod_name() -> None:
    assert pod_name(NAME, UID, 1) != pod_name(NAME, OTHER_UID, 1)


def test_h22_a_run_named_like_a_statefulset_never_meets_its_pods() -> None:
    names = {pod_name("postgres", UID, number) for number in range(1, 20)}
    assert not names & {f"postgres-{number}" for number in range(20)}


def test_recreated_under_the_same_name_starts_from_nothing() -> None:
    """Everything is keyed by UID: the old object's pods and approvals are not this run's."""
    old_pod = pod(owner_uid=UID)
    new = run(uid=OTHER_UID)
    at = world(run=new, row=None, pods=(old_pod,), approvals=(approval(request()),))
    assert kinds(at) == ("OpenRun",)


def test_h56_nothing_is_shown_on_an_object_that_is_going() -> None:
    assert plan(world(run=run(deleting=True))).status is None


@pytest.mark.parametrize("why", ["Deleted", "NamespaceTerminating"])
def test_a_deleted_run_that_a_finalizer_keeps_does_not_look_as_if_it_ran(why: str) -> None:
    revoked = terminal_row(RunState.REVOKED, reason=why)
    shown = plan(world(run=run(deleting=True), row=revoked, pods=())).status
    assert shown is not None
    assert (shown.phase, shown.reason, shown.pod_name) == (Phase.CANCELLED, Reason.REVOKED, "")


def test_nothing_is_shown_where_the_namespace_goes() -> None:
    revoked = terminal_row(RunState.REVOKED)
    at = world(run=run(deleting=True), row=revoked, pods=(), namespace_terminating=True)
    assert plan(at).status is None


class TestLeftWithoutOwner:
    """``kubectl delete --cascade=orphan``, and owner references that somebody took away."""

    GONE: ClassVar[dict[str, Any]] = {"run": None, "gone_uid": UID, "gone_run": run()}

    @pytest.mark.parametrize("how", [GONE, {"run": run(deleting=True)}])
    def test_the_secret_with_the_databases_address_goes(self, how: dict[str, Any]) -> None:
        revoked = terminal_row(RunState.REVOKED)
        assert kinds(world(row=revoked, pods=(), stray_secrets=True, **how)) == ("PurgeSecrets",)
        assert kinds(world(row=revoked, pods=(), stray_secrets=False, **how)) == ()

    def test_an_approval_that_nobody_collects_goes(self) -> None:
        orphan = approval()
        meta = orphan.metadata.model_copy(update={"owner_references": ()})
        orphan = orphan.model_copy(update={"metadata": meta})
        revoked = terminal_row(RunState.REVOKED)
        at = world(row=revoked, pods=(), approvals=(orphan,), **self.GONE)
        key = ObjectKey(orphan.metadata.namespace, orphan.metadata.name)
        assert acts(at) == (DeleteApproval(key, orphan.metadata.uid),)
        assert acts(replace(at, approvals=(approval(),))) == ()

    def test_a_pod_that_the_record_names_goes(self) -> None:
        at = world(row=terminal_row(RunState.REVOKED), pods=(pod(owner_uid=None),), **self.GONE)
        assert acts(at) == (DeletePod(pod().key, "pod-1"),)

    @pytest.mark.parametrize("stranger", [{"uid": "another"}, {"owner_uid": OTHER_UID}])
    def test_a_pod_that_only_says_so_stays(self, stranger: dict[str, Any]) -> None:
        other = pod(**{"owner_uid": None, **stranger})
        assert acts(world(row=terminal_row(RunState.REVOKED), pods=(other,), **self.GONE)) == ()
