"""What every case stands on: one installation, its peers, and a namespace of its own for each case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import deploy
from tests.cluster.harness import Cluster, Kube, Postgres
from tests.cluster.peers import Peers
from tests.cluster.runs import Run
from tests.cluster.scenes import GATE, Manifest, manifest


@contextmanager
def explained(cluster: Cluster, folder: Path, *namespaces: str) -> Iterator[None]:
    """What explains a failure is written down before it is gone, and the failure says where."""
    try:
        yield
    except BaseException as error:
        for namespace in namespaces:
            cluster.dump(namespace, folder / namespace)
        error.add_note(f"what was there when it failed: {folder}")
        raise


@dataclass(frozen=True)
class Stage:
    """The operator at work in the cluster, and whom its runs talk to."""

    cluster: Cluster
    operator: deploy.Installation
    peers: Peers
    database: Postgres
    image: str
    sidecar_image: str
    """The tool server as an image of its own; empty where none can be built."""
    output: Path
    """Where the diagnosis of a failed case goes."""

    @contextmanager
    def ground(self, case: str) -> Iterator[Ground]:
        """A namespace for one case; what explains a failure is kept before it goes."""
        with self.cluster.namespace(deploy.CASE, security="restricted") as namespace:
            ground = Ground(self, namespace)
            places = (namespace, deploy.NAMESPACE, self.peers.namespace)
            with explained(self.cluster, self.output / case.translate(_PATH), *places):
                ground.prepare()
                yield ground


@dataclass(frozen=True)
class Ground:
    """One namespace, ready for runs."""

    stage: Stage
    namespace: str

    @property
    def cluster(self) -> Cluster:
        """The cluster, seen by its administrator."""
        return self.stage.cluster

    def prepare(self) -> None:
        """The model's key, which every run's pod refers to."""
        self.cluster.wait("serviceaccount/default", "create", self.namespace)
        self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "model"},
                "stringData": {"api-key": "sk-of-nobody"},
            },
            self.namespace,
        )

    def make_anew(self) -> None:
        """The namespace once more, after a test has deleted it."""
        self.cluster.kubectl("create", "namespace", self.namespace)
        self.prepare()

    def manifest(self, name: str, scene: str, *, workspace: bool = False, **spec: Any) -> Manifest:
        """An AgentRun of a scene, with the shared tool server unless others are given."""
        servers: list[Mapping[str, Any]] = [{"name": "ops", "url": self.stage.peers.tools_url}]
        if workspace:
            servers.append({"name": "workspace", "workspace": {}})
        given = {"servers": servers, **spec}
        return manifest(name, scene, model=self.stage.peers.model_url, **given)

    def start(self, scene: str, name: str = "one", **spec: Any) -> Run:
        """Apply a run of a scene."""
        return self.apply(self.manifest(name, scene, **spec))

    def apply(self, document: Manifest, who: Kube | None = None) -> Run:
        """Create a run as somebody, by default as the administrator."""
        name = document["metadata"]["name"]
        (who or self.cluster).create(document, self.namespace)
        return self.run(name)

    def run(self, name: str) -> Run:
        """The object that has this name now."""
        uid = self.cluster.get("agentrun", name, self.namespace)["metadata"]["uid"]
        return Run(
            self.cluster, self.stage.peers, self.stage.operator.dsn, self.namespace, name, uid
        )

    def asking(self) -> tuple[Run, str]:
        """A run that waits for a person, and the name of its Approval."""
        run = self.start("asks", toolPolicies=[GATE])
        run.await_status("phase", "Suspended")
        run.await_status("pendingApprovalCount", "1")
        assert run.status()["reason"] == "ApprovalPending"
        (name,) = run.status()["pendingApprovals"]
        self.cluster.wait(f"approval/{name}", "create", self.namespace)
        return run, str(name)

    def decide(self, approval: str, decision: str) -> None:
        """`kubectl patch` of an Approval, as the administrator."""
        change = json.dumps({"spec": {"decision": decision}})
        where = ("-n", self.namespace, "--type=merge", "-p", change)
        self.cluster.kubectl("patch", f"approval/{approval}", *where)

    def user(self, name: str, role: str) -> Kube:
        """Somebody who holds one of the chart's roles in this namespace."""
        self.cluster.kubectl(
            "create",
            "rolebinding",
            f"{name}-{role}",
            f"--clusterrole={role}",
            f"--user={name}",
            "-n",
            self.namespace,
        )
        return self.cluster.as_user(name)

    def patcher(self, name: str) -> Kube:
        """Somebody who may patch Approvals and does not hold the verb `approve`."""
        role = ("--verb=get,list,patch", "--resource=approvals.agentrun.dev")
        where = ("-n", self.namespace)
        self.cluster.kubectl("create", "role", "patch-approvals", *role, *where)
        binding = ("--role=patch-approvals", f"--user={name}")
        self.cluster.kubectl("create", "rolebinding", f"{name}-patches", *binding, *where)
        return self.cluster.as_user(name)


_PATH = str.maketrans("/[]: ", "-----")
