"""What all runs of the suite talk to: one scripted model and one tool server that counts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.cluster.harness import Cluster, Unavailable
from tests.cluster.scenes import model_script
from tests.peers import modelscripts

NAMESPACE: Final = "agentrun-peers"
TOOLSERVER: Final = Path(__file__).parents[1] / "peers" / "toolserver.py"
LEDGER: Final = "/data/effects"
GATES: Final = "/data/gates"
PORTS: Final = {"http": 8080, "ledger": 8081}
MODEL: Final = "agentrun dev model /files/model.yaml --host 0.0.0.0 --port 8080"
TOOLS: Final = (
    "python /files/toolserver.py --host 0.0.0.0 --port 8080 --detach"
    f" --effects {LEDGER} --gates {GATES}"
)
BOOKS: Final = "python -m http.server 8081 --directory /data"
"""The tool server's files for this machine to read."""

SIDECAR: Final = """ARG BASE
FROM ${BASE}
COPY toolserver.py /toolserver.py
ENTRYPOINT ["python", "/toolserver.py", "--port", "8080", "--detach", "--effects", "/tmp/effects", "--gates", "/tmp/gates"]
"""
"""The tool server as somebody's image; it listens on localhost alone, as the runner is beside it."""

Line = dict[str, Any]


class Peers:
    """Both pods, made anew, and what the tool server has seen."""

    def __init__(self, cluster: Cluster, image: str) -> None:
        self.cluster = cluster
        self.namespace = NAMESPACE
        self._image = image
        self.model_url = f"http://model.{NAMESPACE}.svc:8080"
        self._outside: tuple[str, int] | None = None
        self.tools_url = f"http://tools.{NAMESPACE}.svc:8080/mcp"

    def start(self) -> None:
        """Both pods, ready."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        namespace = {"name": NAMESPACE, "labels": labels}
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})
        self.cluster.wait("serviceaccount/default", "create", NAMESPACE)
        gone = ("--ignore-not-found", "--grace-period=1", "-n", NAMESPACE)
        self.cluster.kubectl("delete", "pods/model", "pods/tools", *gone)
        files = {
            "model.yaml": modelscripts.dump(model_script()),
            "toolserver.py": TOOLSERVER.read_text(),
        }
        self.cluster.apply(
            [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}}
                | {"data": files},
                self._pod("model", {"http": MODEL}),
                self._pod("tools", {"http": TOOLS, "ledger": BOOKS}),
                _service("model", "http"),
                _service("tools", "http", "ledger"),
            ],
            NAMESPACE,
        )
        for name in ("model", "tools"):
            self.cluster.wait(f"pod/{name}", "condition=Ready", NAMESPACE)
        self._outside = self.cluster.node_port("tools", NAMESPACE, "ledger")

    @staticmethod
    def build_sidecar(cluster: Cluster, image: str) -> str:
        """The image for a server beside the runner; empty where images are not built."""
        try:
            return cluster.derive_image(image, "agentrun-tools", SIDECAR, TOOLSERVER.parent)
        except Unavailable:
            return ""

    def called(self, run_uid: str) -> list[Line]:
        """The calls of a run that the tool server got, in order."""
        return [line for line in self._lines(".requests") if line["meta"]["run-uid"] == run_uid]

    def effects(self, run_uid: str, tool: str = "charge") -> list[Line]:
        """What was really done for a run."""
        keys = {line["key"] for line in self.called(run_uid)}
        return [line for line in self._lines("") if line["key"] in keys and line["tool"] == tool]

    def open_gate(self, run_uid: str) -> None:
        """The gate of a run's scene opens, and stays open."""
        self._in("tools", "sh", "-c", f"mkdir -p {GATES} && touch {GATES}/{run_uid}")

    def _lines(self, suffix: str) -> list[Line]:
        """A file of the tool server's: over HTTP where that is possible, because it is asked often."""
        if self._outside is None:
            file = LEDGER + suffix
            return lines_of(self._in("tools", "sh", "-c", f"test ! -e {file} || cat {file}"))
        host, port = self._outside
        try:
            with urllib.request.urlopen(
                f"http://{host}:{port}/effects{suffix}", timeout=20
            ) as page:
                return lines_of(page.read().decode())
        except urllib.error.HTTPError:  # nothing has been done yet
            return []

    def _in(self, pod: str, *command: str) -> str:
        return self.cluster.kubectl("exec", "-n", NAMESPACE, pod, "-c", "http", "--", *command)

    def _pod(self, name: str, commands: Mapping[str, str]) -> dict[str, Any]:
        """One container for each command; it listens on the port that has the command's name."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": name}},
            "spec": {
                "nodeSelector": {"agentrun.test/role": "control"},
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [self._container(*item) for item in commands.items()],
                "volumes": [
                    {"name": "files", "configMap": {"name": "files"}},
                    {"name": "data", "emptyDir": {}},
                ],
            },
        }

    def _container(self, port: str, command: str) -> dict[str, Any]:
        return {
            "name": port,
            "image": self._image,
            "command": ["sh", "-c", f"exec {command}"],
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
            "ports": [{"name": port, "containerPort": PORTS[port]}],
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "files", "mountPath": "/files"},
                {"name": "data", "mountPath": "/data"},
            ],
        }


def _service(name: str, *ports: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "type": "NodePort",
            "selector": {"app.kubernetes.io/name": name},
            "ports": [{"name": port, "port": PORTS[port], "targetPort": port} for port in ports],
        },
    }


def lines_of(text: str) -> list[Line]:
    """The complete lines of a ledger file."""
    return [json.loads(line) for line in text.split("\n")[:-1]]
