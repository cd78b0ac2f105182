"""The ground that every cluster test stands on: does the cluster do what a real one does?"""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.cluster.harness import (
    Cluster,
    CommandFailed,
    Postgres,
    api_server,
    eventually,
    postgres_image,
)
from tests.cluster.harness.fixtures import cluster, postgres

__all__ = ["cluster", "postgres"]

# bringing the cluster up counts into the first test's time
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("harness", security="restricted") as name:
        yield name


def sleeper(name: str, image: str, *, role: str = "worker", **spec: Any) -> dict[str, Any]:
    """A pod that passes `restricted`, says hello and stays."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"agentrun.test/role": role},
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-c", "echo hello from $HOSTNAME; exec sleep 3600"],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    **spec,
                }
            ],
        },
    }


@pytest.fixture(scope="session")
def image(cluster: Cluster) -> str:
    """Any image with a shell."""
    reference = postgres_image()
    cluster.load_image(reference)
    return reference


def test_two_nodes_are_ready_and_labelled(cluster: Cluster) -> None:
    control, worker = cluster.node("control"), cluster.node("worker")
    assert control != worker
    assert cluster.is_ready(control)
    assert cluster.is_ready(worker)
    assert not cluster.get("node", control)["spec"].get("taints")


def test_mutating_admission_policies_are_served(cluster: Cluster) -> None:
    assert "mutatingadmissionpolicies" in cluster.kubectl(
        "api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name"
    )


def test_a_pod_runs_on_the_worker_with_logs_and_exec(
    cluster: Cluster, namespace: str, image: str
) -> None:
    cluster.apply(sleeper("one", image), namespace)
    cluster.wait("pod/one", "condition=Ready", namespace)
    assert cluster.get("pod", "one", namespace)["spec"]["nodeName"] == cluster.node("worker")
    assert "hello from one" in eventually(
        lambda: cluster.logs("one", namespace), within=30, what="the first line of the log"
    )
    assert cluster.kubectl("exec", "-n", namespace, "one", "--", "id", "-u").strip() == "65532"


def test_pod_security_is_enforced(cluster: Cluster, namespace: str, image: str) -> None:
    pod = sleeper("root", image, securityContext={"privileged": True})
    with pytest.raises(CommandFailed, match="violates PodSecurity"):
        cluster.create(pod, namespace)


def test_an_impersonated_user_has_only_its_own_rights(cluster: Cluster, namespace: str) -> None:
    nobody = cluster.as_user("nobody-in-particular", ["system:authenticated"])
    refused = nobody.try_kubectl("get", "pods", "-n", namespace)
    assert refused.returncode != 0
    assert "Forbidden" in refused.stderr


def test_the_forwarded_database_answers_and_keeps_its_data(postgres: Postgres) -> None:
    table = f"kept_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.host_dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.execute(f"CREATE TABLE {table} AS SELECT 42 AS answer")
    postgres.kill()
    postgres.await_ready()

    def answer() -> str | None:
        try:
            with psycopg.connect(postgres.host_dsn, connect_timeout=5) as connection:
                row = connection.execute(f"SELECT answer FROM {table}").fetchone()
        except psycopg.OperationalError:
            return None  # the port-forward has not noticed yet that its pod is another one
        return str(row)

    assert eventually(answer, within=120, what="the database after its pod was killed") == "(42,)"
    postgres.sql(f"DROP TABLE {table}")


def test_a_pod_reaches_the_database_by_its_service(
    cluster: Cluster, postgres: Postgres, namespace: str, image: str
) -> None:
    pod = sleeper("client", image, command=["psql", postgres.cluster_dsn, "-Atc", "SELECT 40 + 2"])
    pod["spec"]["restartPolicy"] = "Never"
    cluster.apply(pod, namespace)
    cluster.wait("pod/client", "jsonpath={.status.phase}=Succeeded", namespace)
    assert cluster.logs("client", namespace).strip() == "42"


def test_a_paused_node_is_missed_and_comes_back(
    cluster: Cluster, namespace: str, image: str
) -> None:
    worker = cluster.node("worker")
    cluster.apply(sleeper("survivor", image), namespace)
    cluster.wait("pod/survivor", "condition=Ready", namespace)
    with cluster.paused_node(worker):
        cluster.await_node(worker, ready=False)
    assert cluster.is_ready(worker)
    cluster.wait("pod/survivor", "condition=Ready", namespace)


def test_a_failure_can_be_explained(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    cluster.dump(namespace, tmp_path)
    assert "Ready" in (tmp_path / "nodes.txt").read_text()
    assert (tmp_path / "events.txt").exists()


@pytest.mark.apiserver
def test_a_lone_api_server_validates_and_admits() -> None:
    with api_server() as server:
        with server.namespace() as name:
            assert server.get("namespace", name)["status"]["phase"] == "Active"
            server.create(sleeper("never-runs", "none"), name)
            with pytest.raises(CommandFailed, match="Forbidden"):
                server.as_user("nobody").kubectl("get", "pods", "-n", name)
        assert "mutatingadmissionpolicies" in server.kubectl("api-resources", "-o", "name")


@pytest.mark.apiserver
def test_a_lone_api_server_with_controllers_collects_garbage() -> None:
    def config_map(name: str, **metadata: Any) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}

    with api_server(controllers=True) as server, server.namespace() as name:
        server.create(config_map("owner"), name)
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
        owner["uid"] = server.get("configmap", "owner", name)["metadata"]["uid"]
        server.create(config_map("owned", ownerReferences=[owner]), name)
        server.kubectl("delete", "configmap", "owner", "-n", name)
        eventually(
            lambda: server.find("configmap", "owned", name) is None,
            within=120,
            what="the owned object is collected",
        )
