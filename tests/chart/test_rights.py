"""The operator may do what its adapter asks for, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.chart.render import render
from tests.controller.worlds import INSTALLATION, KEY, approval, pod, run

from agentrun.api import AgentRunStatus, ApprovalStatus
from agentrun.cluster.kube.adapter import KubeCluster
from agentrun.cluster.kube.rest import Resource, Rest
from agentrun.cluster.values import AttemptPod, AttemptSecret, ClusterEvent

Right = tuple[str, str, str]
"""API group, resource with its subresource, verb."""

KOPF = {
    *(
        ("agentrun.dev", plural, verb)
        for plural in ("agentruns", "approvals")
        for verb in ("list", "watch")
    ),
    *(("", "pods", verb) for verb in ("list", "watch")),
    *(
        ("apiextensions.k8s.io", "customresourcedefinitions", verb)
        for verb in ("get", "list", "watch")
    ),
}
"""The watches, and the look whether the kinds are served."""

ADMISSION = {("agentrun.dev", "agentruns/finalizers", "update")}
"""Some clusters demand it of whoever sets blockOwnerDeletion."""


class Asked(Rest):
    """Notes what is asked for and answers nothing."""

    def __init__(self) -> None:
        self.rights: set[Right] = set()

    async def call(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None = None,
        name: str | None = None,
        *,
        sub: str = "",
        **_more: Any,
    ) -> dict[str, Any]:
        group = resource.api.removeprefix("/api/v1").removeprefix("/apis/").split("/")[0]
        self.rights.add((group, f"{resource.name}/{sub}" if sub else resource.name, verb))
        return {"items": [], "metadata": {}}


def everything(cluster: KubeCluster) -> list[Awaitable[Any]]:
    """Every call of the port."""
    attempt = pod().key
    of_run = {"key": attempt, "run": run(), "attempt": 1, "fence": 1, "installation": INSTALLATION}
    return [
        cluster.list_runs(),
        cluster.list_approvals(),
        cluster.list_pods(),
        cluster.get_run(KEY),
        cluster.get_pod(attempt),
        cluster.get_approval(KEY),
        cluster.get_config(KEY, "prompt"),
        cluster.secret_exists(KEY, "key"),
        cluster.namespace_terminating("agents"),
        cluster.namespace_uid("agents"),
        cluster.create_pod(
            AttemptPod(**of_run, secret_name="s", image="i", workspace_image="w")  # type: ignore[arg-type]
        ),
        cluster.delete_pod(attempt, "uid"),
        cluster.create_secret(AttemptSecret(**of_run, dsn="d", secret="s")),  # type: ignore[arg-type]
        cluster._secrets._delete("agents", "s", None),
        cluster.delete_attempt_secrets(run(), []),
        cluster.create_approval(approval()),
        cluster.delete_approval(KEY, "uid"),
        cluster.patch_run_status(run(), AgentRunStatus()),
        cluster.patch_approval_status(approval(), ApprovalStatus()),
        cluster.delete_run(run()),
        cluster.emit(ClusterEvent(run(), "Normal", "Started", "Starting", "")),
        cluster.refuses_forgery("agentrun"),
    ]


@pytest.fixture
async def asked() -> set[Right]:
    """What the adapter asks of the API server."""
    rest = Asked()
    for call in everything(KubeCluster(rest)):
        with contextlib.suppress(Exception):
            await call
    return rest.rights


def granted() -> set[Right]:
    """What the chart gives to the operator."""
    (role,) = [
        item
        for item in render("agentrun")
        if item["kind"] == "ClusterRole" and item["metadata"]["name"] == "agentrun-operator"
    ]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


async def test_the_operator_may_do_all_that_it_asks_for(asked: set[Right]) -> None:
    assert (asked | KOPF | ADMISSION) - granted() == set()


async def test_the_operator_may_do_nothing_else(asked: set[Right]) -> None:
    assert granted() - (asked | KOPF | ADMISSION) == set()
