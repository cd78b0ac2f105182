"""Pods as a kubelet, a scheduler or a node's end leave them, and what is read from them."""

from __future__ import annotations

from typing import Any

import pytest

from agentrun.cluster.values import ContainerEnd
from agentrun.cluster.views import pod_view, secret_view

METADATA: dict[str, Any] = {
    "name": "one-1a2b3-1",
    "namespace": "team",
    "uid": "pod-uid",
    "creationTimestamp": "2026-11-30T14:00:00Z",
    "labels": {"agentrun.dev/run": "one", "agentrun.dev/run-uid": "r", "agentrun.dev/attempt": "3"},
    "annotations": {"agentrun.dev/fence": "7", "agentrun.dev/installation": "main"},
    "ownerReferences": [
        {"kind": "Other", "uid": "x"},
        {"kind": "AgentRun", "uid": "o", "controller": True},
    ],
}


def pod(phase: str = "Pending", metadata: dict[str, Any] | None = None, **status: Any) -> Any:
    return {"metadata": METADATA | (metadata or {}), "status": {"phase": phase, **status}}


def runner(**state: Any) -> dict[str, Any]:
    sidecar = {"name": "workspace", "state": {"running": {}}}
    return {"containerStatuses": [sidecar, {"name": "runner", "state": state}]}


def condition(kind: str, status: str, **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **more}]}


def test_a_view_says_whose_pod_it_is() -> None:
    view = pod_view(pod())
    assert (view.owner_uid, view.run_uid, view.attempt, view.fence) == ("o", "r", 3, 7)
    assert (view.installation, view.node, view.deleting) == ("main", None, False)


@pytest.mark.parametrize("fence", ["", "x", "-1", "1.5", "٣"])
def test_what_is_malformed_is_nobodys(fence: str) -> None:
    view = pod_view(pod(metadata={"annotations": {"agentrun.dev/fence": fence}}))
    assert view.fence is None
    assert view.installation is None


def test_a_pod_of_somebody_else() -> None:
    bare = {"name": "postgres-1", "namespace": "team", "uid": "u"}
    view = pod_view({"metadata": bare})
    assert (view.owner_uid, view.run_uid, view.fence, view.attempt) == (None, None, None, None)
    assert (view.phase, view.created_at) == ("Pending", None)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"exitCode": 0, "reason": "Completed"}, ContainerEnd(0, "Completed")),
        ({"exitCode": 137, "reason": "OOMKilled"}, ContainerEnd(137, "OOMKilled")),
        ({"exitCode": 78, "message": "bad"}, ContainerEnd(78, "", message="bad")),
    ],
)
def test_h32_the_runners_end_counts_alone(state: dict[str, Any], expected: ContainerEnd) -> None:
    """H32: the workspace still runs, and the pod with it."""
    view = pod_view(pod("Running", **runner(terminated=state)))
    assert view.runner_end == expected
    assert not view.runner_running
    assert view.waiting is None


def test_h32_a_sidecars_end_is_not_the_runners() -> None:
    ended = {"name": "workspace", "state": {"terminated": {"exitCode": 137}}}
    running = {"name": "runner", "state": {"running": {}}}
    view = pod_view(pod("Running", containerStatuses=[ended, running]))
    assert view.runner_end is None
    assert view.runner_running


@pytest.mark.parametrize("reason", ["NodeLost", "UnexpectedAdmissionError", "Evicted"])
def test_a_pod_that_failed_without_a_word_of_its_container(reason: str) -> None:
    for status in ({}, runner(running={}), runner(waiting={"reason": "ContainerCreating"})):
        view = pod_view(pod("Failed", reason=reason, **status))
        assert view.runner_end is None
        assert not view.runner_running
        assert view.waiting is None
        assert view.evicted == (reason == "Evicted")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, None),
        (runner(waiting={"reason": "ContainerCreating"}), None),
        (runner(waiting={"reason": "PodInitializing"}), None),
        (
            runner(waiting={"reason": "ImagePullBackOff", "message": "no such image"}),
            ("ImagePullBackOff", "no such image"),
        ),
        (
            runner(waiting={"reason": "CreateContainerConfigError", "message": "no secret"}),
            ("CreateContainerConfigError", "no secret"),
        ),
        (
            {
                "initContainerStatuses": [
                    {"name": "tool-db", "state": {"waiting": {"reason": "ErrImagePull"}}}
                ],
                **runner(waiting={"reason": "PodInitializing"}),
            },
            ("ErrImagePull", ""),
        ),
        (
            condition("PodScheduled", "False", reason="Unschedulable", message="0/2 nodes"),
            ("Unschedulable", "0/2 nodes"),
        ),
        (condition("PodScheduled", "True"), None),
    ],
)
def test_why_it_cannot_start(status: dict[str, Any], expected: tuple[str, str] | None) -> None:
    assert pod_view(pod(**status)).waiting == expected


def test_a_sidecar_that_restarts_beside_a_running_runner_is_no_waiting() -> None:
    crashing = {"name": "workspace", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    status = {"initContainerStatuses": [crashing], **runner(running={})}
    assert pod_view(pod("Running", **status)).waiting is None


def test_h31_taken_away_is_not_the_same_as_too_greedy() -> None:
    """H31"""
    greedy = pod_view(pod("Failed", reason="Evicted"))
    drained = pod_view(pod("Running", **condition("DisruptionTarget", "True")))
    assert (greedy.evicted, greedy.disrupted) == (True, False)
    assert (drained.evicted, drained.disrupted) == (False, True)
    assert not pod_view(pod(**condition("DisruptionTarget", "False"))).disrupted


def test_being_deleted_is_seen() -> None:
    view = pod_view(pod("Running", metadata={"deletionTimestamp": "2026-11-30T14:00:30Z"}))
    assert view.deleting


def test_nobody_can_claim_the_users_kill_in_a_cluster() -> None:
    annotations = {"agentrun.dev/killed-by-user": "true"}
    assert not pod_view(pod(metadata={"annotations": annotations})).killed_by_user


def test_a_secret_shows_no_data() -> None:
    view = secret_view({"metadata": METADATA, "data": {"secret": "czNjcmV0"}})
    assert (view.uid, view.owner_uid, view.fence) == ("pod-uid", "o", 7)
    assert "czNj" not in repr(view)
