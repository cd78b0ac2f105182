"""What only a real API server can tell about the kube adapter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cluster.harness import ApiServer
from tests.cluster_port.scenes import approval_for, manifest, pod_for, secret_for, until
from tests.cluster_port.test_pod_manifest import EVERYTHING, IMAGE_SERVER, REMOTE, WORKSPACE

from agentrun.api import AgentRun, AgentRunStatus, Phase
from agentrun.cluster.kube.adapter import KubeCluster
from agentrun.cluster.kube.connect import connect
from agentrun.cluster.kube.containers import PodDefaults
from agentrun.cluster.kube.pod_manifest import pod_manifest
from agentrun.cluster.parse import readable
from agentrun.cluster.values import ClusterEvent, ObjectKey
from agentrun.errors import Forbidden, NotFound, Rejected, UsageError

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(600)]

VOLUME = {"name": "workspace", "workspace": {"persistence": "Volume", "sizeLimit": "1Gi"}}
PLACED = {
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "nodeSelector": {"disk": "ssd"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        }
    },
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
    "labels": {"kueue.x-k8s.io/queue-name": "team"},
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
    "imagePullSecrets": [{"name": "registry"}],
}

Counted = list[tuple[str, str, int]]


@pytest.fixture
def counted() -> Counted:
    return []


@pytest.fixture
async def cluster(
    server: ApiServer, kube_namespace: str, counted: Counted
) -> AsyncIterator[KubeCluster]:
    rest = await connect(kubeconfig=server.kubeconfig, count=lambda *what: counted.append(what))
    made = KubeCluster(rest, namespaces=[kube_namespace], instance="operator-0")
    yield made
    await made.close()


def applied(server: ApiServer, namespace: str, name: str = "one", **spec: Any) -> AgentRun:
    server.apply(manifest(name, **spec), namespace)
    return AgentRun.model_validate(server.get("agentrun", name, namespace))


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ({}, {}),
        ({"toolServers": [WORKSPACE]}, {"avoid_node": "n1"}),
        ({"toolServers": [IMAGE_SERVER, REMOTE]}, {}),
        ({"toolServers": [VOLUME]}, {}),
        ({**EVERYTHING, "pod": PLACED}, {"avoid_node": "n1"}),
    ],
)
def test_rendered_pods_are_admitted_as_restricted(
    server: ApiServer, kube_namespace: str, spec: dict[str, Any], more: dict[str, Any]
) -> None:
    """The namespace enforces Pod Security's level ``restricted``; validation is strict."""
    run = applied(server, kube_namespace, **spec)
    rendered = pod_manifest(pod_for(run, **more), PodDefaults(version="1.2.3"))
    done = server.try_kubectl(
        *("create", "-n", kube_namespace, "--dry-run=server", "--validate=strict"),
        *("-o", "json", "-f", "-"),
        stdin=json.dumps(rendered),
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    stored = json.loads(done.stdout)
    assert stored["spec"]["automountServiceAccountToken"] is False
    names = [volume["name"] for volume in stored["spec"]["volumes"]]
    assert names == [volume["name"] for volume in rendered["spec"]["volumes"]]


async def test_a_privileged_pod_would_have_been_refused(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    """The check above checks something: the namespace refuses what is not restricted."""
    run = applied(server, kube_namespace)
    rendered = pod_manifest(pod_for(run), PodDefaults())
    del rendered["spec"]["containers"][0]["securityContext"]["capabilities"]
    done = await asyncio.to_thread(
        server.try_kubectl,
        *("create", "-n", kube_namespace, "--dry-run=server", "-f", "-"),
        stdin=json.dumps(rendered),
    )
    assert "restricted" in done.stderr


async def test_a_misspelt_affinity_is_refused(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    run = applied(server, kube_namespace, pod={"affinity": {"nodeAfinity": {}}})
    with pytest.raises(Rejected, match="nodeAfinity"):
        await cluster.create_pod(pod_for(run))


async def test_a_quota_is_forbidden_with_its_name(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-pods"},
        "spec": {"hard": {"pods": "0"}},
    }
    server.apply(quota, kube_namespace)
    server.wait("resourcequota/no-pods", "jsonpath={.status.hard.pods}=0", kube_namespace)
    run = applied(server, kube_namespace)
    with pytest.raises(Forbidden, match="no-pods"):
        await cluster.create_pod(pod_for(run))


async def test_a_namespace_that_goes_away_is_noticed(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    """H24"""
    run = applied(server, kube_namespace)
    server.kubectl("delete", "namespace", kube_namespace, "--wait=false")
    assert await cluster.namespace_terminating(kube_namespace)
    assert await cluster.namespace_terminating("never-was")
    with pytest.raises((Forbidden, NotFound)):
        await cluster.create_pod(pod_for(run))


async def test_a_volume_is_made_once_and_never_taken_from_others(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    run = applied(server, kube_namespace, toolServers=[VOLUME])
    await cluster.create_pod(pod_for(run, 1))
    await cluster.create_pod(pod_for(run, 2))
    (claim,) = server.select("persistentvolumeclaims", kube_namespace)
    assert claim["metadata"]["ownerReferences"][0]["uid"] == run.metadata.uid
    stranger = run.model_copy(
        update={"metadata": run.metadata.model_copy(update={"uid": run.metadata.uid[:5] + "-x"})}
    )
    with pytest.raises(Forbidden, match="somebody else"):
        await cluster.create_pod(pod_for(stranger, 3))


async def test_writes_of_a_clean_run_are_counted_and_few(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str, counted: Counted
) -> None:
    """What the planner does in a run without approvals, in the adapter's requests."""
    run = applied(server, kube_namespace)
    counted.clear()
    pod = pod_for(run)
    await cluster.create_secret(secret_for(run, pod.secret_name))
    view = await cluster.create_pod(pod)
    run = await cluster.patch_run_status(run, AgentRunStatus(phase=Phase.PENDING, attempt=1))
    run = await cluster.patch_run_status(run, AgentRunStatus(phase=Phase.RUNNING, attempt=1))
    await cluster.delete_attempt_secrets(run, keep=[pod.secret_name])
    run = await cluster.patch_run_status(run, AgentRunStatus(phase=Phase.SUCCEEDED, attempt=1))
    await cluster.delete_pod(view.key, view.uid)
    await cluster.delete_attempt_secrets(run, keep=[])
    assert counted == [
        ("create", "secrets", 201),
        ("create", "pods", 201),
        ("update", "agentruns/status", 200),
        ("update", "agentruns/status", 200),
        ("update", "agentruns/status", 200),
        ("delete", "pods", 200),
        ("delete", "secrets", 200),
    ]


async def test_facts_about_namespaces_are_not_asked_for_each_run(
    cluster: KubeCluster, kube_namespace: str, counted: Counted
) -> None:
    counted.clear()
    for _ in range(5):
        await cluster.namespace_uid(kube_namespace)
        await cluster.namespace_terminating(kube_namespace)
    assert counted == [("get", "namespaces", 200)]


async def test_events_are_of_the_new_api_and_about_the_run(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    run = applied(server, kube_namespace)
    event = ClusterEvent(
        run=run, type="Warning", reason="NoProgress", action="End", note="n" * 5000
    )
    await cluster.emit(event)
    (stored,) = server.select("events.events.k8s.io", kube_namespace)
    assert stored["regarding"]["uid"] == run.metadata.uid
    assert stored["reportingController"] == "agentrun.dev/operator"
    assert stored["reportingInstance"] == "operator-0"
    assert len(stored["note"].encode()) <= 1024
    shown = server.kubectl("events", "-n", kube_namespace, "--for=agentrun/one")
    assert "NoProgress" in shown


async def test_one_unreadable_object_does_not_hide_the_others(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As when a newer release wrote it."""
    applied(server, kube_namespace)
    applied(server, kube_namespace, "two")
    bodies = server.select("agentruns", kube_namespace)
    bodies[0]["spec"]["fromTheFuture"] = True
    runs = readable(AgentRun, bodies)
    assert [run.metadata.name for run in runs] == ["two"]
    assert "fromTheFuture" in caplog.text
    assert "say hello" not in caplog.text


async def test_only_watched_namespaces_and_only_our_pods_are_listed(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    run = applied(server, kube_namespace)
    ours = await cluster.create_pod(pod_for(run))
    stranger = pod_manifest(pod_for(run, 2), PodDefaults())
    stranger["metadata"] = {"name": "postgres-1", "namespace": kube_namespace}
    server.create(stranger, kube_namespace)
    with server.namespace("other") as other:
        applied(server, other, "elsewhere")
        assert [view.uid for view in await cluster.list_pods()] == [ours.uid]
        assert [r.metadata.name for r in await cluster.list_runs()] == ["one"]
        everywhere = KubeCluster(await connect(kubeconfig=server.kubeconfig))
        names = {r.metadata.name for r in await everywhere.list_runs()}
        await everywhere.close()
        assert {"one", "elsewhere"} <= names


async def test_attempt_secrets_hold_what_the_runner_needs(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    """H50: immutable; a user's own Secret with our label is left alone."""
    run = applied(server, kube_namespace)
    await cluster.create_secret(secret_for(run, "one-attempt"))
    stored = server.get("secret", "one-attempt", kube_namespace)
    assert stored["immutable"] is True
    assert set(stored["data"]) == {"dsn", "secret"}
    mine = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "mine", "labels": {"agentrun.dev/run": "one"}},
    }
    server.create(mine, kube_namespace)
    await cluster.delete_attempt_secrets(run, keep=[])
    left = {s["metadata"]["name"] for s in server.select("secrets", kube_namespace)}
    assert left == {"mine"}


async def test_a_restarted_operator_finds_secrets_by_the_pods_that_name_them(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str, counted: Counted
) -> None:
    """It lists no Secrets: that right would show their contents."""
    run = applied(server, kube_namespace)
    for attempt in (1, 2):
        pod = pod_for(run, attempt)
        await cluster.create_secret(secret_for(run, pod.secret_name, attempt))
        await cluster.create_pod(pod)
    ended = {"status": {"phase": "Failed"}}
    target = ("pod", pod_for(run, 1).key.name, "-n", kube_namespace, "--subresource=status")
    server.kubectl("patch", *target, "-p", json.dumps(ended))
    restarted = KubeCluster(
        await connect(kubeconfig=server.kubeconfig, count=lambda *what: counted.append(what))
    )
    counted.clear()
    await restarted.delete_attempt_secrets(run, keep=[])
    await restarted.close()
    left = {s["metadata"]["name"] for s in server.select("secrets", kube_namespace)}
    assert left == {pod_for(run, 2).secret_name}
    assert counted == [("list", "pods", 200), ("delete", "secrets", 200)]


async def test_a_secret_of_somebody_else_with_our_name_stays(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    """H50"""
    run = applied(server, kube_namespace)
    await cluster.create_secret(secret_for(run, "one-attempt"))
    server.kubectl("delete", "secret", "one-attempt", "-n", kube_namespace)
    squatter = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one-attempt"}}
    server.create(squatter, kube_namespace)
    await cluster.delete_attempt_secrets(run, keep=[])
    assert server.find("secret", "one-attempt", kube_namespace) is not None


async def test_the_kube_iterator_of_changes_is_empty(cluster: KubeCluster) -> None:
    assert [key async for key in cluster.changes()] == []


async def test_credentials_that_are_not_there(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="kubeconfig"):
        await connect(kubeconfig=tmp_path / "nothing")


async def test_what_a_run_owns_blocks_its_foreground_deletion(
    server: ApiServer, cluster: KubeCluster, kube_namespace: str
) -> None:
    """H24: seen deleting while its approval is still there, and gone with it."""
    run = applied(server, kube_namespace)
    await cluster.create_approval(approval_for(run))
    server.kubectl(
        *("delete", "agentrun", "one", "-n", kube_namespace),
        *("--cascade=foreground", "--wait=false"),
    )

    async def gone() -> bool:
        try:
            assert (await cluster.get_run(ObjectKey(kube_namespace, "one"))).metadata.deleting
        except NotFound:
            return True
        return False

    await until(gone, "the run is gone")
    assert await cluster.list_approvals() == []
