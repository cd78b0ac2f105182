"""The operator under test: the chart as a user installs it, with times that suit a test."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from tests.chart.render import render_text
from tests.cluster.harness import Cluster, Postgres, eventually

NAMESPACE: Final = "agentrun"
CASE: Final = "case"
"""How the namespaces of all cases begin."""

DEPLOYMENT: Final = "deployment/agentrun-operator"
SELECTOR: Final = "app.kubernetes.io/component=operator"
DATABASE: Final = "agentrun_operator_tests"
OWNER: Final = "agentrun_owner"
QUICK: Final = {
    "AGENTRUN_BACKOFF_SECONDS": "1",
    "AGENTRUN_SETTLE_SECONDS": "5",
    "AGENTRUN_POLL_SECONDS": "0.5",
}
"""Waits that a person would not notice and a test would."""

_SAMPLE = re.compile(r"agentrun_k8s_requests_total\{(.*?)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Requests = Counter[tuple[str, str]]
"""How many requests the operator has made, by verb and resource."""


class Installation:
    """The two charts, the operator's Secret and its database, made anew."""

    def __init__(self, cluster: Cluster, postgres: Postgres, image: str) -> None:
        self.cluster = cluster
        self.image = image
        self.dsn = _fresh_database(postgres)
        """The operator's database as its owner sees it, from this machine."""
        self._cluster_dsn = _at(self.dsn, postgres.cluster_dsn)

    def install(self) -> None:
        """CRDs, Secret and chart, as README says, and wait until the operator works."""
        self._forget_earlier_sessions()
        self.cluster.apply(_namespace(), None)
        self.cluster.apply(render_text("agentrun-crds"))
        for plural in ("agentruns", "approvals"):
            self.cluster.wait(f"crd/{plural}.agentrun.dev", "condition=Established")
        data = {"dsn": self._cluster_dsn, "key": secrets.token_hex(32)}
        self.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "agentrun-database"},
                "stringData": data,
            },
            NAMESPACE,
        )
        self.upgrade()

    def _forget_earlier_sessions(self) -> None:
        """Runs of a session that was cut off would be taken for runs whose record was lost."""
        names = [item["metadata"]["name"] for item in self.cluster.select("namespaces")]
        for name in names:
            if name.startswith(f"{CASE}-"):
                self.cluster.kubectl("delete", "namespace", name, "--wait=false")

    def upgrade(self, env: Mapping[str, str] | None = None) -> None:
        """The chart again, with more settings of the operator's environment."""
        self.cluster.apply(self._chart(env or {}), NAMESPACE)
        self.await_ready()

    def await_ready(self, within: float = 180) -> None:
        """Until the pod that should be there says that its caches are synced."""
        limit = f"--timeout={int(within)}s"
        self.cluster.kubectl(
            "rollout", "status", DEPLOYMENT, "-n", NAMESPACE, limit, timeout=within + 30
        )

    def pod(self) -> dict[str, Any]:
        """The operator's pod."""
        pods = [
            pod
            for pod in self.cluster.select("pods", NAMESPACE, SELECTOR)
            if "deletionTimestamp" not in pod["metadata"]
        ]
        assert len(pods) == 1, [pod["metadata"]["name"] for pod in pods]
        return pods[0]

    def kill(self) -> None:
        """End the operator without a chance to say good-bye; its Deployment makes another one."""
        name = self.pod()["metadata"]["name"]
        self.cluster.kubectl("delete", "pod", name, "-n", NAMESPACE, "--grace-period=0", "--force")

    def restarts(self) -> int:
        """How often the operator's container was started again in its present pod."""
        return sum(
            status["restartCount"] for status in self.pod()["status"].get("containerStatuses", [])
        )

    def requests(self) -> Requests:
        """What the operator's own metrics say about its requests to the API server."""
        name = self.pod()["metadata"]["name"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:8080/proxy/metrics"
        found: Requests = Counter()
        for labels, value in _SAMPLE.findall(self.cluster.kubectl("get", "--raw", path)):
            named = dict(_LABEL.findall(labels))
            found[named["verb"], named["resource"]] += int(float(value))
        return found

    def remove(self) -> None:
        """What `helm uninstall` would remove; the CRDs are kept."""
        self.cluster.kubectl(
            "delete", "--ignore-not-found", "-n", NAMESPACE, "-f", "-", stdin=self._chart({})
        )
        eventually(
            lambda: not self.cluster.select("pods", NAMESPACE, SELECTOR),
            within=120,
            what="the operator is gone",
        )

    def _chart(self, env: Mapping[str, str]) -> str:
        repository, _, tag = self.image.rpartition(":")
        values = {
            "image": {"repository": repository, "tag": tag},
            "nodeSelector": {"agentrun.test/role": "control"},
            "env": [{"name": name, "value": value} for name, value in {**QUICK, **env}.items()],
        }
        return render_text("agentrun", values, namespace=NAMESPACE)


def _namespace() -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": labels},
    }


def _fresh_database(postgres: Postgres) -> str:
    """A database of its own, owned by a role that has no more than README asks for."""
    password = secrets.token_hex(16)
    postgres.sql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
    postgres.sql(
        f"DO $$ BEGIN CREATE ROLE {OWNER} LOGIN CREATEROLE;"
        " EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    postgres.sql(f"ALTER ROLE {OWNER} PASSWORD '{password}'")
    postgres.sql(f"CREATE DATABASE {DATABASE} OWNER {OWNER}")
    return _at(f"postgresql://{OWNER}:{password}@nowhere/{DATABASE}", postgres.host_dsn)


def _at(dsn: str, other: str) -> str:
    """The same login and database where another DSN finds its server."""
    return urlsplit(dsn)._replace(netloc=_login(dsn) + _server(other)).geturl()


def _login(dsn: str) -> str:
    return "".join(urlsplit(dsn).netloc.rpartition("@")[:2])


def _server(dsn: str) -> str:
    return urlsplit(dsn).netloc.rpartition("@")[2]
