"""What an installation needs, looked at one by one."""

from __future__ import annotations

from pathlib import Path

from agentrun.cli.where import no_database
from agentrun.errors import AgentRunError, StoreUnavailable


async def checks(dsn: str, kubeconfig: Path | None) -> list[tuple[str, str]]:
    """Names of what was looked at, with what is wrong (empty: nothing)."""
    return [
        ("database and schema", await _database(dsn)),
        ("custom resources and rights", await _cluster(kubeconfig)),
    ]


async def _database(dsn: str) -> str:
    from agentrun.store.operator_store import open_operator_store

    store = await open_operator_store(dsn)
    try:
        await store.ping()
    except StoreUnavailable as error:
        return str(no_database(error))
    except AgentRunError as error:
        return str(error)
    finally:
        await store.close()
    return ""


async def _cluster(kubeconfig: Path | None) -> str:
    from agentrun.cluster.kube.open import open_kube_cluster

    try:
        cluster = await open_kube_cluster(kubeconfig=kubeconfig)
        try:
            await cluster.list_runs()
            await cluster.list_approvals()
            await cluster.list_pods()
        finally:
            await cluster.close()
    except AgentRunError as error:
        return str(error)
    return ""
