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
    build_image,
    eventually,
)
from tests.cluster.harness.faults import isolated_node, partition, signal
from tests.cluster.harness.fixtures import cluster, postgres

__all__ = ["cluster", "postgres"]

ASK = """
import psycopg, sys
with psycopg.connect(sys.argv[1], connect_timeout=5) as connection:
    print(connection.execute("SELECT 40 + 2").fetchone()[0])
"""

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
    """The project's image: it has a shell and a Postgres client."""
    reference = build_image()
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


def test_the_projects_image_runs_under_restricted_with_a_read_only_root(
    cluster: Cluster, namespace: str, image: str
) -> None:
    pod = sleeper("ours", image, command=["agentrun", "--help"])
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = True
    cluster.apply(pod, namespace)
    eventually(
        lambda: cluster.get("pod", "ours", namespace)["status"]["phase"] in {"Succeeded", "Failed"},
        within=180,
        what="the command has ended",
    )
    assert "Usage: agentrun" in cluster.logs("ours", namespace)


def test_everything_in_the_image_is_compiled(cluster: Cluster, namespace: str, image: str) -> None:
    script = """
import importlib.util, pathlib, sysconfig
for root in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")):
    for source in pathlib.Path(root).rglob("*.py"):
        if not pathlib.Path(importlib.util.cache_from_source(str(source))).exists():
            print(source)
"""
    pod = sleeper("compiled", image, command=["python", "-c", script])
    pod["spec"]["restartPolicy"] = "Never"
    cluster.apply(pod, namespace)
    cluster.wait("pod/compiled", "jsonpath={.status.phase}=Succeeded", namespace)
    assert cluster.logs("compiled", namespace) == ""


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


@pytest.mark.parametrize("role", ["control", "worker"])
def test_a_pod_reaches_the_database_by_its_service(
    cluster: Cluster, postgres: Postgres, namespace: str, image: str, role: str
) -> None:
    pod = sleeper("client", image, role=role, command=["python", "-c", ASK, postgres.cluster_dsn])
    pod["spec"]["restartPolicy"] = "Never"
    cluster.apply(pod, namespace)
    cluster.wait("pod/client", "jsonpath={.status.phase}=Succeeded", namespace)
    assert cluster.logs("client", namespace).strip() == "42"


def test_a_partition_cuts_one_pod_off_the_database(
    cluster: Cluster, postgres: Postgres, namespace: str, image: str
) -> None:
    cluster.apply(sleeper("cut-off", image), namespace)
    cluster.wait("pod/cut-off", "condition=Ready", namespace)
    ask = ("exec", "-n", namespace, "cut-off", "--", "python", "-c", ASK, postgres.cluster_dsn)
    assert cluster.kubectl(*ask).strip() == "42"
    with partition(cluster, "cut-off", namespace, [postgres.address]):
        assert "timeout expired" in cluster.try_kubectl(*ask).stderr
    assert cluster.kubectl(*ask).strip() == "42"


def test_a_container_can_be_killed_from_its_node(
    cluster: Cluster, namespace: str, image: str
) -> None:
    pod = sleeper("victim", image)
    pod["spec"]["restartPolicy"] = "Never"
    cluster.apply(pod, namespace)
    cluster.wait("pod/victim", "condition=Ready", namespace)
    signal(cluster, "victim", namespace, "main", "KILL")
    cluster.wait("pod/victim", "jsonpath={.status.phase}=Failed", namespace)
    (status,) = cluster.get("pod", "victim", namespace)["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 137


def test_an_isolated_node_is_missed_while_its_pods_go_on(
    cluster: Cluster, postgres: Postgres, namespace: str, image: str
) -> None:
    worker = cluster.node("worker")
    cluster.apply(sleeper("lonely", image), namespace)
    cluster.wait("pod/lonely", "condition=Ready", namespace)
    with isolated_node(cluster, worker):
        cluster.await_node(worker, ready=False)
        running = cluster.exec_on_node(worker, "crictl", "ps", "--name", "main", "-o", "json")
        assert "lonely" in running
    assert cluster.is_ready(worker)


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


def test_a_claim_gets_a_volume_that_any_user_can_write(
    cluster: Cluster, namespace: str, image: str
) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "files"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    pod = sleeper(
        "writer",
        image,
        command=["sh", "-c", "echo kept > /files/it; cat /files/it"],
        volumeMounts=[{"name": "files", "mountPath": "/files"}],
    )
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"]["volumes"] = [{"name": "files", "persistentVolumeClaim": {"claimName": "files"}}]
    cluster.apply([claim, pod], namespace)
    cluster.wait("pod/writer", "jsonpath={.status.phase}=Succeeded", namespace)
    assert cluster.logs("writer", namespace).strip() == "kept"
    volume = cluster.get("pvc", "files", namespace)["spec"]["volumeName"]
    cluster.kubectl("delete", "pod/writer", "pvc/files", "-n", namespace)
    eventually(
        lambda: cluster.find("pv", volume) is None, within=120, what="the volume is gone as well"
    )


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
