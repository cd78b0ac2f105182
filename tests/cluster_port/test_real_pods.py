"""Rendered pods on real nodes: what only a kubelet and a runtime can tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness import Cluster as Nodes
from tests.cluster.harness import build_image
from tests.cluster.harness.fixtures import cluster
from tests.cluster_port.scenes import manifest, pod_for, secret_for, until

from agentrun.api import AgentRun
from agentrun.cluster.kube.adapter import KubeCluster
from agentrun.cluster.kube.connect import connect
from agentrun.cluster.values import PodView

__all__ = ["cluster"]

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

CRDS = Path(__file__).parents[2] / "crds"
WORKSPACE = [{"name": "workspace", "workspace": {}}]
BAD_SETTING = {"env": [{"name": "AGENTRUN_METRICS_PORT", "value": "no number"}]}
"""Makes a runner end with 78, after it has read its Secret."""


@pytest.fixture(scope="module")
def image(cluster: Nodes) -> str:
    reference = build_image()
    cluster.load_image(reference)
    return reference


@pytest.fixture(scope="module")
def kinds(cluster: Nodes) -> Iterator[None]:
    """The CRDs. Those that were there, perhaps a chart's, are left alone."""
    names = [f"crd/{plural}.agentrun.dev" for plural in ("agentruns", "approvals")]
    missing = [name for name in names if cluster.find(*name.split("/")) is None]
    if missing:
        cluster.apply("---\n".join(path.read_text() for path in sorted(CRDS.iterdir())))
    for name in names:
        cluster.wait(name, "condition=Established")
    yield
    if missing:
        cluster.kubectl("delete", *missing, "--wait=false")


@pytest.fixture
def namespace(cluster: Nodes, kinds: None) -> Iterator[str]:
    with cluster.namespace("pods", security="restricted") as name:
        cluster.wait("serviceaccount/default", "create", name)
        yield name


@pytest.fixture
async def port(cluster: Nodes, namespace: str) -> AsyncIterator[KubeCluster]:
    made = KubeCluster(await connect(kubeconfig=cluster.kubeconfig), namespaces=[namespace])
    yield made
    await made.close()


async def start(
    cluster: Nodes, port: KubeCluster, namespace: str, image: str, **spec: Any
) -> PodView:
    await asyncio.to_thread(cluster.apply, manifest("one", **spec), namespace)
    run = AgentRun.model_validate(
        await asyncio.to_thread(cluster.get, "agentrun", "one", namespace)
    )
    pod = replace(pod_for(run), image=image, workspace_image="")
    await port.create_secret(secret_for(run, pod.secret_name))
    return await port.create_pod(pod)


async def seen(port: KubeCluster, pod: PodView, what: str) -> PodView:
    async def look() -> PodView | None:
        view = await port.get_pod(pod.key)
        return view if getattr(view, what) else None

    return await until(look, what, within=240)


async def test_the_runner_reads_its_secret_and_its_end_is_the_pods(
    cluster: Nodes, port: KubeCluster, namespace: str, image: str
) -> None:
    """H32: the workspace server does not keep the pod alive."""
    pod = await start(cluster, port, namespace, image, toolServers=WORKSPACE, pod=BAD_SETTING)
    view = await seen(port, pod, "runner_end")
    assert view.runner_end is not None
    assert view.runner_end.exit_code == 78
    assert "AGENTRUN_METRICS_PORT" in view.runner_end.message
    assert view.node

    async def failed() -> bool:
        return (await port.get_pod(pod.key)).phase == "Failed"

    await until(failed, "the pod has ended with its runner", within=120)


async def test_runner_and_workspace_share_a_socket_and_nothing_else(
    cluster: Nodes, port: KubeCluster, namespace: str, image: str
) -> None:
    pod = await start(cluster, port, namespace, image, toolServers=WORKSPACE)
    await seen(port, pod, "runner_running")
    connects = (
        "import os, socket; s = socket.socket(socket.AF_UNIX); "
        "s.connect(os.environ['AGENTRUN_WORKSPACE_SOCKET']); print('connected')"
    )

    def run_in(container: str, *command: str) -> str:
        target = ("exec", pod.key.name, "-n", namespace, "-c", container, "--")
        done = cluster.try_kubectl(*target, *command)
        return done.stdout + done.stderr

    async def connected() -> bool:
        return "connected" in await asyncio.to_thread(run_in, "runner", "python", "-c", connects)

    await until(connected, "the runner reaches the workspace's socket", within=120)
    workspace = await asyncio.to_thread(
        run_in, "workspace", "sh", "-c", "env; ls -la /run/agentrun"
    )
    assert "s3cret" not in workspace
    assert "AGENTRUN" not in workspace
    assert "secret" not in workspace.lower()
    written = await asyncio.to_thread(
        run_in, "workspace", "sh", "-c", "echo x > /workspace/f && echo x > /tmp/f && echo written"
    )
    assert "written" in written
    refused = await asyncio.to_thread(run_in, "workspace", "sh", "-c", "echo x > /etc/f")
    assert "Read-only" in refused
    mode = await asyncio.to_thread(
        run_in, "runner", "sh", "-c", "stat -L -c %a $AGENTRUN_SECRET_DIR/secret; id -u"
    )
    assert mode.split() == ["440", "65532"]
    token = await asyncio.to_thread(run_in, "runner", "ls", "/var/run/secrets/kubernetes.io")
    assert "No such file" in token
    await port.delete_pod(pod.key, pod.uid, 0)


async def test_a_missing_secret_is_said_by_the_kubelet(
    cluster: Nodes, port: KubeCluster, namespace: str, image: str
) -> None:
    model = {"name": "m", "apiKeySecretRef": {"name": "not-there", "key": "key"}}
    pod = await start(cluster, port, namespace, image, model=model)
    view = await seen(port, pod, "waiting")
    assert view.waiting is not None
    assert view.waiting[0] == "CreateContainerConfigError"
    assert "not-there" in view.waiting[1]


async def test_an_impossible_placement_is_said_by_the_scheduler(
    cluster: Nodes, port: KubeCluster, namespace: str, image: str
) -> None:
    pod = await start(cluster, port, namespace, image, pod={"nodeSelector": {"no-such": "node"}})
    view = await seen(port, pod, "waiting")
    assert view.waiting is not None
    assert view.waiting[0] == "Unschedulable"


async def test_a_silent_node_is_avoided_but_not_at_any_price(
    cluster: Nodes, port: KubeCluster, namespace: str, image: str
) -> None:
    nodes = [node["metadata"]["name"] for node in cluster.select("nodes")]
    await asyncio.to_thread(cluster.apply, manifest("one", pod=BAD_SETTING), namespace)
    run = AgentRun.model_validate(
        await asyncio.to_thread(cluster.get, "agentrun", "one", namespace)
    )
    for attempt, node in enumerate(nodes, 1):
        pod = replace(pod_for(run, attempt, avoid_node=node), image=image)
        await port.create_secret(secret_for(run, pod.secret_name, attempt))
        view = await seen(port, await port.create_pod(pod), "node")
        assert view.node != node
