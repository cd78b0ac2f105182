"""The operator of a state folder: the same controller, with child processes for pods."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agentrun.cli.driver_lock import driven, driving, in_turn
from agentrun.cli.postgres import Dsns, local_postgres
from agentrun.cli.scripted_model import start_scripted_model, stop_scripted_model
from agentrun.cli.where import Where, no_database
from agentrun.cluster.environment import MODEL_URL
from agentrun.cluster.port import Cluster
from agentrun.cluster.values import PodView
from agentrun.controller.settings import Settings
from agentrun.errors import NotFound, StoreUnavailable

INSTALLATION = "local"
DRAIN_SECONDS = 45.0
LOOK_AGAIN = 0.1


@dataclass(slots=True)
class LocalOperator:
    """A running operator. ``drain`` asks the runners to give their runs back, and waits."""

    task: asyncio.Task[None]
    stop: asyncio.Event
    cluster: Cluster

    async def drain(self) -> None:
        """SIGTERM to every runner: commit, release, end. The record keeps everything.

        The operator ends first: it would replace what is being stopped.
        """
        self.stop.set()
        await asyncio.wait({self.task})
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while pods := [pod for pod in await self.cluster.list_pods() if _lives(pod)]:
                    for pod in pods:
                        if not pod.deleting:
                            with suppress(NotFound):
                                await self.cluster.delete_pod(pod.key, pod.uid)
                    await asyncio.sleep(LOOK_AGAIN)


def _lives(pod: PodView) -> bool:
    """A runner that works, or one about to: left alone, it would start after us, without a model."""
    return pod.runner_end is None and pod.phase in ("Pending", "Running") and pod.waiting is None


@asynccontextmanager
async def local_operator(
    where: Where, script: Path | None, log: Path | None
) -> AsyncIterator[LocalOperator]:
    """Postgres, the scripted model if there is a script, and the operator, until the end.

    The model goes with the last driver of the folder: another one's runs may be talking to it.
    """
    ambient = dict(os.environ)
    try:
        with ExitStack() as stack:
            with in_turn(where.state):
                shared = driven(where.state)
                stack.enter_context(driving(where.state))
                if script is not None:
                    ambient[MODEL_URL] = await start_scripted_model(
                        where.state, script, log, shared=shared
                    )
            async with _database(where) as dsns, _driving(where.state, dsns, ambient) as operator:
                yield operator
    finally:
        with in_turn(where.state):
            if not driven(where.state):
                stop_scripted_model(where.state)


@asynccontextmanager
async def _database(where: Where) -> AsyncIterator[Dsns]:
    if where.dsn is None:
        async with local_postgres(where.state) as dsns:
            yield dsns
        return
    yield Dsns(where.dsn, where.dsn)


async def prepare(dsn: str) -> None:
    """Bring a given database up to date, before anything is applied that needs it."""
    from agentrun.store.migrate import migrate

    try:
        await asyncio.to_thread(migrate, dsn)
    except StoreUnavailable as error:
        raise no_database(error) from None


@asynccontextmanager
async def _driving(
    state: Path, dsns: Dsns, ambient: dict[str, str]
) -> AsyncIterator[LocalOperator]:
    from agentrun.cluster.local.open import open_local_cluster
    from agentrun.controller.app import Operator
    from agentrun.store.operator_store import open_operator_store

    store = await open_operator_store(dsns.operator)
    cluster = open_local_cluster(state, ambient=ambient)
    stop = asyncio.Event()
    operator = Operator(store, cluster, local_settings(dsns, ambient))
    task = asyncio.create_task(operator.run(stop))
    try:
        await store.ping()
        yield LocalOperator(task, stop, cluster)
    finally:
        stop.set()
        await asyncio.gather(task, return_exceptions=True)
        await cluster.close()
        await store.close()


def local_settings(dsns: Dsns, ambient: dict[str, str]) -> Settings:
    """Settings of local mode; tests scale times down by AGENTRUN_BACKOFF_SECONDS."""
    return Settings(
        installation=INSTALLATION,
        runner_dsn=dsns.runner,
        local=True,
        poll=0.25,
        backoff_base=float(ambient.get("AGENTRUN_BACKOFF_SECONDS", "10")),
    )
