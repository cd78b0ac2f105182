"""Both adapters behind one fixture: the local one always, the other against a real API server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.harness import ApiServer, api_server
from tests.cluster_port.scenes import Scene, until

from agentrun.cluster.kube.open import open_kube_cluster, open_kube_user
from agentrun.cluster.local.adapter import LocalCluster
from agentrun.cluster.local.open import open_local_cluster, open_local_user, this_person
from agentrun.cluster.local.pod_spec import Commands
from agentrun.cluster.values import PodView

CRDS = Path(__file__).parents[2] / "crds"

RUNNER = """
trap '[ -e $CONTRACT_DIR/stubborn ] || exit 143' TERM
while [ ! -s $CONTRACT_DIR/$AGENTRUN_POD_UID ]; do sleep 0.02; done
exit $(cat $CONTRACT_DIR/$AGENTRUN_POD_UID)
"""
"""A stand-in runner: it ends with the code in a file named after its pod's UID."""


@pytest.fixture(scope="session")
def server() -> Iterator[ApiServer]:
    """An API server with the CRDs and the garbage collector, but no nodes."""
    with api_server(controllers=True) as running:
        running.kubectl("apply", "--server-side", "-f", str(CRDS))
        for name in ("agentruns", "approvals"):
            running.wait(f"crd/{name}.agentrun.dev", "condition=Established")
        yield running


@pytest.fixture
def kube_namespace(server: ApiServer) -> Iterator[str]:
    """A namespace that admits restricted pods only."""
    with server.namespace("port", security="restricted") as name:
        server.wait("serviceaccount/default", "create", name)
        yield name


@pytest.fixture(params=["local", pytest.param("kube", marks=pytest.mark.apiserver)])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """The adapter under test."""
    if request.param == "local":
        async with _local_scene(tmp_path) as made:
            yield made
    else:
        server = request.getfixturevalue("server")
        async with _kube_scene(server, request.getfixturevalue("kube_namespace")) as made:
            yield made


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose processes are all ended afterwards."""
    root = tmp_path / "state"
    yield root
    asyncio.run(_end_everything(root))


async def _end_everything(root: Path) -> None:
    cluster = open_local_cluster(root)
    for pod in await cluster.list_pods():
        await cluster.delete_pod(pod.key, pod.uid, 0)
    await cluster.close()
    shutil.rmtree(root, ignore_errors=True)


@asynccontextmanager
async def _local_scene(tmp_path: Path) -> AsyncIterator[Scene]:
    root, ends = tmp_path / "state", tmp_path / "ends"
    ends.mkdir()
    cluster = open_local_cluster(
        root,
        commands=Commands(runner=("sh", "-c", RUNNER, "runner"), workspace=("sleep", "1000")),
        ambient={**os.environ, "CONTRACT_DIR": str(ends)},
    )
    user = open_local_user(root)

    async def begin(pod: PodView) -> None:
        await until(lambda: _running(cluster, pod), "the runner is running")

    async def end(pod: PodView, code: int) -> None:
        (ends / pod.uid).write_text(str(code))

    async def hold(pod: PodView) -> None:
        (ends / "stubborn").touch()
        await begin(pod)

    try:
        yield Scene("local", cluster, user, "default", this_person().name, begin, end, hold)
    finally:
        await user.close()
        await cluster.close()
        await _end_everything(root)


async def _running(cluster: LocalCluster, pod: PodView) -> bool:
    return (await cluster.get_pod(pod.key)).runner_running


@asynccontextmanager
async def _kube_scene(server: ApiServer, namespace: str) -> AsyncIterator[Scene]:
    cluster = await open_kube_cluster(kubeconfig=server.kubeconfig, namespaces=[namespace])
    user = await open_kube_user(kubeconfig=server.kubeconfig, namespace=namespace)

    def set_status(pod: PodView, phase: str, state: dict[str, object]) -> None:
        """What a kubelet would say."""
        container = {
            "name": "runner",
            "image": "",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        patch = {"status": {"phase": phase, "containerStatuses": [container]}}
        target = ("pod", pod.key.name, "-n", namespace, "--subresource=status")
        server.kubectl("patch", *target, "-p", json.dumps(patch))

    async def begin(pod: PodView) -> None:
        await asyncio.to_thread(set_status, pod, "Running", {"running": {}})

    async def end(pod: PodView, code: int) -> None:
        reason = "Completed" if code == 0 else "Error"
        terminated = {"exitCode": code, "reason": reason}
        phase = "Succeeded" if code == 0 else "Failed"
        await asyncio.to_thread(set_status, pod, phase, {"terminated": terminated})

    async def hold(pod: PodView) -> None:
        """On a node that does not exist, nobody confirms that the pod has stopped."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.key.name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{pod.key.name}/binding"
        await asyncio.to_thread(
            server.kubectl, "create", "--raw", path, "-f", "-", stdin=json.dumps(binding)
        )
        await begin(pod)

    try:
        yield Scene("kube", cluster, user, namespace, "admin", begin, end, hold)
    finally:
        await user.close()
        await cluster.close()
