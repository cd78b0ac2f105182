"""Opening a connection to a cluster: for the operator, and for a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentrun.cluster.kube.adapter import KubeCluster
from agentrun.cluster.kube.connect import connect, context_namespace
from agentrun.cluster.kube.containers import PodDefaults
from agentrun.cluster.kube.rest import Count, no_count
from agentrun.cluster.kube.user import KubeUserCluster
from agentrun.cluster.port import UserCluster


async def open_kube_cluster(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    namespaces: Sequence[str] = (),
    defaults: PodDefaults | None = None,
    count: Count = no_count,
) -> KubeCluster:
    """The operator's side; ``namespaces`` empty: the whole cluster. ``count`` sees every request."""
    rest = await connect(kubeconfig=kubeconfig, context=context, count=count)
    return KubeCluster(rest, namespaces=namespaces, defaults=defaults)


async def open_kube_user(
    *, kubeconfig: Path | None = None, context: str | None = None, namespace: str | None = None
) -> UserCluster:
    """A person's side: the context's namespace unless one is named."""
    rest = await connect(kubeconfig=kubeconfig, context=context, agent="kubectl-agentrun")
    return KubeUserCluster(rest, namespace=namespace or context_namespace(kubeconfig, context))
