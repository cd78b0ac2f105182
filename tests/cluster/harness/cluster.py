"""The two-node cluster, and the ways to hurt it."""

import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from unittest import SkipTest

from tests.cluster.harness.diagnosis import dump
from tests.cluster.harness.kube import Kube, internal_address
from tests.cluster.harness.polling import eventually
from tests.cluster.harness.postgres import Postgres
from tests.cluster.harness.shell import CommandFailed, run, script

ROLE = "agentrun.test/role"
# the first time, Kubernetes itself may have to be built
UP_SECONDS = 3600


class Unavailable(SkipTest):
    """There is no cluster here, or not one to do this to; a test that meets it is skipped by name."""


@dataclass(frozen=True, kw_only=True)
class Cluster(Kube):
    """A control plane that also runs operator and database, and a worker that can be lost.

    ``mode`` is "kind" or "self-built" (two makes of the same thing), or
    "context": somebody's cluster, whose nodes are not ours to pause.
    """

    mode: str
    name: str
    kind_path: str
    docker_host: str

    @classmethod
    def described_by(cls, kubeconfig: Path) -> Self:
        """The cluster that the script left a description of beside its kubeconfig."""
        facts = json.loads((kubeconfig.parent / "cluster.json").read_text())
        return cls(
            kubeconfig=kubeconfig,
            kubectl_path=facts["kubectl"],
            mode=facts["mode"],
            name=facts["cluster"],
            kind_path=facts["kind"],
            docker_host=facts["docker_host"],
        )

    def node(self, role: str) -> str:
        """The name of the node with the role "control" or "worker"."""
        found = self.select("nodes", selector=f"{ROLE}={role}")
        if not found:
            raise Unavailable(f"label a node of the cluster {ROLE}={role}")
        name: str = found[0]["metadata"]["name"]
        return name

    def is_ready(self, node: str) -> bool:
        """What the control plane thinks of the node at this moment."""
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in self.get("node", node)["status"]["conditions"]
        )

    def await_node(self, node: str, *, ready: bool, within: float = 240) -> None:
        """Until the control plane has noticed that a node went or came back."""
        eventually(
            lambda: self.is_ready(node) is ready,
            within=within,
            what=f"{node} {'Ready' if ready else 'NotReady'}",
            every=1,
        )

    def pause_node(self, node: str) -> None:
        """Freeze everything on a node: to the cluster it is as if its power were out."""
        self._docker("pause", node)

    def unpause_node(self, node: str) -> None:
        """Let a frozen node go on; harmless when it is not frozen."""
        if self._docker("inspect", "-f", "{{.State.Paused}}", node).strip() == "true":
            self._docker("unpause", node)

    @contextmanager
    def paused_node(self, node: str) -> Iterator[None]:
        """A frozen node that comes back whatever the test does; on leaving it is Ready again."""
        self.pause_node(node)
        try:
            yield
        finally:
            self.unpause_node(node)
            self.await_node(node, ready=True)

    def exec_on_node(self, node: str, *command: str) -> str:
        """A command on the node itself, beneath Kubernetes."""
        return self._docker("exec", node, *command)

    def load_image(self, *references: str, roles: Sequence[str] = ("control", "worker")) -> None:
        """Put images of the local engine on the nodes with these roles, if they are not there yet."""
        if self.mode == "context" and not self.name:
            return  # somebody's cluster pulls for itself
        nodes = ",".join(self.node(role) for role in roles)
        where = ("--name", self.name, "--nodes", nodes)
        run(
            *(self.kind_path, "load", "docker-image", *references, *where),
            timeout=600,
            env=self._engine,
        )

    def derive_image(self, base: str, name: str, dockerfile: str, context: Path) -> str:
        """An image on top of another one, made by the local engine and named after its base."""
        if self.mode == "context":
            raise Unavailable("images for a given context are not built here")
        reference = f"localhost/{name}:{base.rpartition(':')[2]}"
        run(
            *("docker", "build", "-q", "-t", reference, "--build-arg", f"BASE={base}", "-f", "-"),
            str(context),
            stdin=dockerfile,
            env=self._engine,
        )
        return reference

    def postgres(self, namespace: str = "agentrun-postgres", name: str = "postgres") -> Postgres:
        """A database on the control node; found again when it is there already."""
        return Postgres(self, namespace=namespace, name=name)

    def node_port(self, service: str, namespace: str, port: str) -> tuple[str, int] | None:
        """A Service on its node's own address, where this machine reaches that.

        kind's nodes are containers on a bridge of this machine. It is cheaper than a port-forward,
        which ends with its pod and stalls under load.
        """
        host = internal_address(self.get("node", self.node("control")))
        ports = self.get("service", service, namespace)["spec"]["ports"]
        number = next(int(one["nodePort"]) for one in ports if one["name"] == port)
        try:
            with socket.create_connection((host, number), timeout=3):
                return host, number
        except OSError:
            return None

    def dump(self, namespace: str, folder: Path) -> None:
        """Everything that explains a failure in a namespace, as files."""
        dump(self, namespace, folder)

    def _docker(self, *args: str) -> str:
        if self.mode == "context":
            raise Unavailable("the nodes of a given context are not this test's to touch")
        return run("docker", *args, env=self._engine)

    @property
    def _engine(self) -> dict[str, str]:
        return {"DOCKER_HOST": self.docker_host} if self.docker_host else {}


def ensure_cluster() -> Cluster:
    """The cluster, brought up if that was asked for; otherwise Unavailable says why not.

    Bringing it up may install packages and build for minutes. That is expected
    of CI, and of a machine where `tests/cluster/kind/up` was run before, but
    never a surprise.
    """
    asked = os.environ.get("CI") == "true" or os.environ.get("AGENTRUN_TEST_KUBECONTEXT")
    if not asked and not _was_up():
        raise Unavailable("no test cluster here; tests/cluster/kind/up makes one")
    try:
        return Cluster.described_by(Path(script("up", timeout=UP_SECONDS)))
    except CommandFailed as failure:
        raise Unavailable(str(failure)) from failure


def _was_up() -> bool:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("AGENTRUN_TEST_CACHE") or Path(home) / "agentrun-test-cluster")
    return (cache / "state" / "cluster.json").exists()
