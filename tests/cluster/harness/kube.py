"""What every Kubernetes of the tests can be asked, whoever runs it."""

import json
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tests.cluster.harness.shell import CommandFailed, attempt

Manifest = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Kube:
    """One API server and who talks to it, by way of kubectl as a user would."""

    kubeconfig: Path
    kubectl_path: str
    identity: tuple[str, ...] = ()

    def kubectl(self, *args: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Standard output of a kubectl command that must succeed."""
        done = self.try_kubectl(*args, stdin=stdin, timeout=timeout)
        if done.returncode != 0:
            raise CommandFailed(("kubectl", *args), done.returncode, done.stderr or done.stdout)
        return done.stdout

    def try_kubectl(
        self, *args: str, stdin: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """A kubectl command that may be refused; the refusal is in stderr."""
        return attempt(*self.command(*args), stdin=stdin, timeout=timeout)

    def command(self, *args: str) -> tuple[str, ...]:
        """The whole command line, for a process that lives longer than one answer."""
        return (self.kubectl_path, f"--kubeconfig={self.kubeconfig}", *self.identity, *args)

    def as_user(self, name: str, groups: Sequence[str] = ()) -> Self:
        """The same API server as seen by an impersonated user."""
        who = (f"--as={name}", *(f"--as-group={group}" for group in groups))
        return replace(self, identity=who)

    def apply(self, manifest: Manifest, namespace: str | None = None) -> str:
        """Server-side apply of YAML text or of objects."""
        return self.kubectl(
            "apply",
            "--server-side",
            "--force-conflicts",
            *_in(namespace),
            "-f",
            "-",
            stdin=_text(manifest),
        )

    def create(self, manifest: Manifest, namespace: str | None = None) -> str:
        """Create: unlike apply it fails when the object is there."""
        return self.kubectl("create", *_in(namespace), "-f", "-", stdin=_text(manifest))

    def get(self, resource: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One object."""
        answer: dict[str, Any] = json.loads(
            self.kubectl("get", resource, name, *_in(namespace), "-o", "json")
        )
        return answer

    def find(self, resource: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        """One object, or None where there is none."""
        text = self.kubectl(
            "get", resource, name, *_in(namespace), "--ignore-not-found", "-o", "json"
        )
        return json.loads(text) if text.strip() else None

    def select(
        self, resource: str, namespace: str | None = None, selector: str = ""
    ) -> list[dict[str, Any]]:
        """All objects of a kind, by label selector where one is given."""
        where = _in(namespace) or ("-A",)
        chosen = ("-l", selector) if selector else ()
        answer = json.loads(self.kubectl("get", resource, *where, *chosen, "-o", "json"))
        items: list[dict[str, Any]] = answer["items"]
        return items

    def wait(
        self, target: str, condition: str, namespace: str | None = None, timeout: float = 180
    ) -> None:
        """Wait until `kubectl wait --for=CONDITION` holds for `kind/name`, also when it does not exist yet."""
        limit = f"--timeout={int(timeout)}s"
        for what in (() if condition == "delete" else ("create",)) + (condition,):
            self.kubectl(
                "wait", target, f"--for={what}", *_in(namespace), limit, timeout=timeout + 30
            )

    def logs(
        self, pod: str, namespace: str, container: str | None = None, *, previous: bool = False
    ) -> str:
        """What a container has written so far."""
        which = ("-c", container) if container else ()
        earlier = ("--previous",) if previous else ()
        return self.kubectl("logs", pod, "-n", namespace, *which, *earlier)

    @contextmanager
    def namespace(self, prefix: str = "test", security: str = "baseline") -> Iterator[str]:
        """A throw-away namespace at a Pod Security level; its removal is begun, not awaited."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        labels = {
            "agentrun.test/throwaway": "true",
            "pod-security.kubernetes.io/enforce": security,
        }
        self.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        )
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


def internal_address(node: Mapping[str, Any]) -> str:
    """The address of a node inside the cluster."""
    (address,) = (a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
    return str(address)


def _in(namespace: str | None) -> tuple[str, ...]:
    return ("-n", namespace) if namespace else ()


def _text(manifest: Manifest) -> str:
    if isinstance(manifest, str):
        return manifest
    if isinstance(manifest, Mapping):
        return json.dumps(manifest)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifest)})
