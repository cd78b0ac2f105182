"""What happens to pods and networks in the field, done on purpose.

All of it is done from the nodes, beneath Kubernetes, which learns of it the
way it would from a real fault.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.kube import internal_address


def signal(cluster: Cluster, pod: str, namespace: str, container: str, name: str = "KILL") -> None:
    """Send a signal to a container's first process; from inside, KILL and STOP would not reach it."""
    found = cluster.get("pod", pod, namespace)
    identity = _container_id(found, container)
    node = found["spec"]["nodeName"]
    template = "{{.info.pid}}"
    pid = cluster.exec_on_node(
        node, "crictl", "inspect", "-o", "go-template", "--template", template, identity
    )
    cluster.exec_on_node(node, "kill", f"-{name}", pid.strip())


@contextmanager
def frozen(cluster: Cluster, pod: str, namespace: str, container: str) -> Iterator[None]:
    """A container whose first process stands still meanwhile, as in a long pause of its host."""
    signal(cluster, pod, namespace, container, "STOP")
    try:
        yield
    finally:
        signal(cluster, pod, namespace, container, "CONT")


@contextmanager
def partition(cluster: Cluster, pod: str, namespace: str, peers: Sequence[str]) -> Iterator[None]:
    """No packet passes between a pod and some addresses; open connections hang, as over a cut cable.

    The pod goes on running. A Service's traffic is caught by the addresses of
    the pods behind it.
    """
    found = cluster.get("pod", pod, namespace)
    pair = (found["status"]["podIP"], "{" + ", ".join(peers) + "}")
    rules = [
        f"ip saddr {one} ip daddr {other} drop" for one, other in (pair, tuple(reversed(pair)))
    ]
    with _rules(cluster, found["spec"]["nodeName"], ["forward"], rules):
        yield


@contextmanager
def isolated_node(cluster: Cluster, node: str) -> Iterator[None]:
    """A node that is cut off from the others while its pods go on running; Ready again on leaving."""
    peers = ", ".join(
        address
        for other in cluster.select("nodes")
        if other["metadata"]["name"] != node
        for address in (other["spec"]["podCIDR"], internal_address(other))
    )
    rules = [f"ip {end} {{{peers}}} drop" for end in ("saddr", "daddr")]
    try:
        with _rules(cluster, node, ["input", "forward", "output"], rules):
            yield
    finally:
        cluster.await_node(node, ready=True)


@contextmanager
def _rules(
    cluster: Cluster, node: str, hooks: Sequence[str], rules: Sequence[str]
) -> Iterator[None]:
    table = f"agentrun-cut-{secrets.token_hex(3)}"
    chains = "\n".join(
        f"chain {hook} {{\n type filter hook {hook} priority 0;\n " + "\n ".join(rules) + "\n}"
        for hook in hooks
    )
    cluster.exec_on_node(node, "nft", f"table inet {table} {{\n{chains}\n}}")
    try:
        yield
    finally:
        cluster.exec_on_node(node, "nft", f"delete table inet {table}")


def _container_id(pod: dict[str, Any], name: str) -> str:
    for group in ("containerStatuses", "initContainerStatuses"):
        for status in pod["status"].get(group, []):
            if status["name"] == name:
                identity: str = status["containerID"].removeprefix("containerd://")
                return identity
    raise AssertionError(f"pod {pod['metadata']['name']} has no container {name}")
