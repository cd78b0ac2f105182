"""On which node a runner pod may run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentrun.cluster.values import AttemptPod

Body = dict[str, Any]

UNREACHABLE_SECONDS: Final = 30
"""After so long on a node that does not answer, the pod is deleted (Kubernetes' default is 300)."""

NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def tolerations(pod: AttemptPod) -> list[Body]:
    """The user's, but for the two node conditions, which are ours. Of several that match, the first
    counts, so ours are before one that tolerates everything for ever."""
    user = [dict(t) for t in pod.run.spec.pod.tolerations if t.get("key") not in NODE_TAINTS]
    ours: list[Body] = [
        {
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": UNREACHABLE_SECONDS,
        }
        for taint in NODE_TAINTS
    ]
    return [*ours, *user]


def affinity(pod: AttemptPod) -> Body | None:
    """The user's, and away from the node whose last pod fell silent.

    Preferred and not required: a cluster with one node must not wait for ever. The node is named
    by itself and not by its hostname label, which need not be the same.
    """
    user: Mapping[str, Any] = pod.run.spec.pod.affinity or {}
    if pod.avoid_node is None:
        return dict(user) or None
    elsewhere = {
        "weight": 100,
        "preference": {
            "matchFields": [
                {"key": "metadata.name", "operator": "NotIn", "values": [pod.avoid_node]}
            ]
        },
    }
    node = dict(user.get("nodeAffinity") or {})
    preferred = [*(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()), elsewhere]
    node["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {**user, "nodeAffinity": node}
