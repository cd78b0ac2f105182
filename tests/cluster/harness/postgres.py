"""Postgres in the cluster, reached from inside by its Service and from the host by its node's port."""

from __future__ import annotations

import base64
import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tests.cluster.harness.images import postgres_image
from tests.cluster.harness.polling import eventually
from tests.cluster.harness.portforward import PortForward

if TYPE_CHECKING:
    from tests.cluster.harness.cluster import Cluster

USER = "postgres"
DATABASE = "agentrun"


class Postgres:
    """One database server on the control node, with its data on a volume that outlives its pod."""

    def __init__(self, cluster: Cluster, *, namespace: str, name: str) -> None:
        self._cluster = cluster
        self.namespace = namespace
        self.name = name
        self.password = self._stored_password() or secrets.token_hex(16)
        image = postgres_image()
        if image.startswith("localhost/"):  # any other image the node can pull
            cluster.load_image(image, roles=["control"])
        cluster.apply(_manifest(namespace, name, self.password, image))
        self.await_ready()
        self._forward: PortForward | None = None
        outside = cluster.node_port(name, namespace, "postgres")
        self._outside = outside or self._forwarded()
        eventually(self._answers, within=120, what="an answer from Postgres")

    @property
    def host_dsn(self) -> str:
        """For the test itself, on this machine."""
        return self._dsn(*self._outside)

    @property
    def cluster_dsn(self) -> str:
        """For pods."""
        return self._dsn(f"{self.name}.{self.namespace}.svc", 5432)

    @property
    def address(self) -> str:
        """The pod's own address at the moment, behind the Service."""
        address: str = self._cluster.get("pod", self._pod, self.namespace)["status"]["podIP"]
        return address

    def sql(self, text: str) -> str:
        """The bare answer to a statement, by psql inside the pod: it needs no port-forward."""
        psql = ("psql", "-U", USER, "-d", DATABASE, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text)
        return self._cluster.kubectl("exec", "-n", self.namespace, self._pod, "--", *psql).strip()

    def kill(self) -> None:
        """End the server without a chance to say good-bye; its StatefulSet brings it back."""
        self._cluster.kubectl(
            "delete", "pod", self._pod, "-n", self.namespace, "--grace-period=0", "--force"
        )

    def stop(self) -> None:
        """Take the database away until start()."""
        self._scale(0)
        self._cluster.wait(f"pod/{self._pod}", "delete", self.namespace)

    def start(self) -> None:
        """Bring the database back, with its data."""
        self._scale(1)
        self.await_ready()

    def await_ready(self, within: float = 300) -> None:
        """Until the pod says that the server accepts connections."""
        self._cluster.wait(f"pod/{self._pod}", "condition=Ready", self.namespace, timeout=within)

    def close(self) -> None:
        """End the port-forward, if there is one; the server stays for whoever comes next."""
        if self._forward:
            self._forward.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _pod(self) -> str:
        return f"{self.name}-0"

    def _dsn(self, host: str, port: int) -> str:
        return f"postgresql://{USER}:{self.password}@{host}:{port}/{DATABASE}"

    def _forwarded(self) -> tuple[str, int]:
        self._forward = PortForward(self._cluster, f"service/{self.name}", 5432, self.namespace)
        return "127.0.0.1", self._forward.port

    def _answers(self) -> bool:
        return self.sql("SELECT 1") == "1"

    def _scale(self, replicas: int) -> None:
        self._cluster.kubectl(
            "scale", f"statefulset/{self.name}", f"--replicas={replicas}", "-n", self.namespace
        )

    def _stored_password(self) -> str | None:
        secret = self._cluster.find("secret", self.name, self.namespace)
        return base64.b64decode(secret["data"]["password"]).decode() if secret else None


def _manifest(namespace: str, name: str, password: str, image: str) -> list[dict[str, Any]]:
    labels = {"app.kubernetes.io/name": name}
    meta = {"name": name, "namespace": namespace, "labels": labels}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "nodeSelector": {"agentrun.test/role": "control"},
            "terminationGracePeriodSeconds": 5,
            "containers": [_container(name, image)],
        },
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
        },
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta,
            "stringData": {"password": password},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {
                "type": "NodePort",
                "selector": labels,
                "ports": [{"name": "postgres", "port": 5432}],
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": meta,
            "spec": {
                "serviceName": name,
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": template,
                "volumeClaimTemplates": [claim],
            },
        },
    ]


def _container(secret: str, image: str) -> dict[str, Any]:
    password = {"secretKeyRef": {"name": secret, "key": "password"}}
    return {
        "name": "postgres",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["postgres", "-c", "max_connections=300"],
        "env": [
            {"name": "POSTGRES_USER", "value": USER},
            {"name": "POSTGRES_DB", "value": DATABASE},
            {"name": "POSTGRES_PASSWORD", "valueFrom": password},
            {"name": "PGDATA", "value": "/var/lib/postgresql/data/pgdata"},
        ],
        "ports": [{"name": "postgres", "containerPort": 5432}],
        # over TCP: the official image listens on its socket alone while it initialises
        "readinessProbe": {
            "exec": {"command": ["pg_isready", "-q", "-h", "127.0.0.1", "-U", USER]},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
        },
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/data"}],
    }
