"""Credentials and connections: from inside a cluster, or by a kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kubernetes.aio import client, config

from agentrun import __version__
from agentrun.cluster.kube.rest import Count, Rest, no_count
from agentrun.errors import UsageError

POOL: Final = 8
"""Connections at once. Measured: as fast as an unlimited pool, at a fraction of the memory."""

IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"


async def connect(
    *,
    kubeconfig: Path | None = None,
    context: str | None = None,
    count: Count = no_count,
    agent: str = "agentrun-operator",
    pool: int = POOL,
) -> Rest:
    """A client with the credentials of the pod it runs in, or of the kubeconfig (KUBECONFIG, then
    the usual place). UsageError when neither can be used."""
    settings = client.Configuration()
    settings.connection_pool_maxsize = pool
    try:
        if kubeconfig is None and context is None and os.environ.get(IN_CLUSTER):
            config.load_incluster_config(settings)  # type: ignore[no-untyped-call]
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=settings,
                persist_config=False,
            )
    except (config.ConfigException, OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"no usable credentials for a cluster: {error}",
            attempted="connect to the API server",
            advice="Give a kubeconfig (KUBECONFIG or --kubeconfig), or run inside a cluster",
        ) from None
    api = client.ApiClient(settings)
    api.user_agent = f"{agent}/{__version__}"
    return Rest(api, count=count)


def context_namespace(kubeconfig: Path | None = None, context: str | None = None) -> str:
    """The namespace that the kubeconfig's context names, else ``default``."""
    file = str(kubeconfig) if kubeconfig else None
    try:
        contexts, active = config.list_kube_config_contexts(file)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError):
        return "default"
    chosen = next((item for item in contexts if item["name"] == context), active)
    return str(chosen["context"].get("namespace") or "default")
