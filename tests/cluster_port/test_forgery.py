"""The operator's self-test of who decides, on a real API server without and with the policies."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.chart.render import render
from tests.cluster.harness import ApiServer
from tests.cluster_port.scenes import until

from agentrun.cluster.kube.adapter import KubeCluster
from agentrun.cluster.kube.connect import connect
from agentrun.errors import ClusterUnavailable

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(600)]

NAMESPACE = "agentrun"
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")


@pytest.fixture
async def operator(server: ApiServer, tmp_path: Path) -> AsyncIterator[KubeCluster]:
    """The adapter with the chart's service account and rights, and without its policies."""
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    server.apply([item for item in render("agentrun") if item["kind"] in RIGHTS])
    config = yaml.safe_load(server.kubeconfig.read_text())
    token = server.kubectl("create", "token", "agentrun-operator", "-n", NAMESPACE).strip()
    config["users"] = [{"name": "admin", "user": {"token": token}}]
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    made = KubeCluster(await connect(kubeconfig=file))
    yield made
    await made.close()


async def test_h42_forged_decisions_are_taken_without_policies_and_refused_with_them(
    server: ApiServer, operator: KubeCluster
) -> None:
    assert not await operator.refuses_forgery(NAMESPACE)

    policies = [item for item in render("agentrun") if "AdmissionPolicy" in item["kind"]]
    server.apply(policies)
    try:

        async def refused() -> bool:
            with contextlib.suppress(ClusterUnavailable):  # it has yet to learn of the kinds
                return await operator.refuses_forgery(NAMESPACE)
            return False

        await until(refused, "the policies are in force")
        assert server.select("approvals", NAMESPACE) == []
    finally:
        for item in policies:
            server.kubectl("delete", item["kind"], item["metadata"]["name"])


async def test_h42_whoever_may_not_patch_at_all_has_shown_nothing(
    server: ApiServer, operator: KubeCluster
) -> None:
    server.kubectl("delete", "clusterrole", "agentrun-operator")
    allowed = ("--verb=create,delete", "--resource=approvals.agentrun.dev")
    server.kubectl("create", "clusterrole", "agentrun-operator", *allowed)
    assert not await operator.refuses_forgery(NAMESPACE)
