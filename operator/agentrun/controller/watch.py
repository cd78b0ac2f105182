"""Kopf as the watch-and-dispatch layer, and nothing more (the only module that imports it).

``on.event`` handlers fill the cache and the queue. They add no finalizer and no annotation, keep no
state on the objects, and await nothing. Retries, back-off and deadlines are the queue's.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import kopf

from agentrun.api import AgentRun, Approval
from agentrun.api.names import (
    AGENTRUN_PLURAL,
    APPROVAL_PLURAL,
    GROUP,
    LABEL_RUN_UID,
    VERSION,
)
from agentrun.cluster.parse import readable
from agentrun.cluster.views import pod_view
from agentrun.controller.app import Operator
from agentrun.controller.cache import object_key
from agentrun.errors import ClusterUnavailable

Login = Callable[..., Any]
DELETED = "DELETED"


def kopf_watch(
    *, namespaces: Sequence[str] = (), login: Login | None = None
) -> Callable[[Operator, asyncio.Event], Coroutine[None, None, None]]:
    """A watch for :class:`Operator`. No namespaces: all of them. ``login`` returns what Kopf's own
    ``on.login`` handlers return (a bounded session)."""

    async def watch(operator: Operator, stop: asyncio.Event) -> None:
        quiet()
        registry = kopf.OperatorRegistry()
        register(registry, operator)
        kopf.on.login(registry=registry)(login or credentials)
        ready = asyncio.Event()
        told = asyncio.create_task(stop.wait())
        signals = asyncio.create_task(_signals(ready, stop))
        watches = asyncio.create_task(
            kopf.operator(
                registry=registry,
                settings=settings(clusterwide=not namespaces),
                ready_flag=ready,
                clusterwide=not namespaces,
                namespaces=list(namespaces),
            )
        )
        try:
            await asyncio.wait((told, watches), return_when=asyncio.FIRST_COMPLETED)
            if not told.done():
                await watches
                raise ClusterUnavailable("the watches have ended", attempted="watch the cluster")
        finally:
            await _end(told, signals, watches)

    return watch


def credentials(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """Those of the pod it runs in, else of the kubeconfig. Kopf only watches here, so that its
    unlimited pool holds three connections."""
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def quiet() -> None:
    """Kopf says of every single event that its handler has succeeded; only what went wrong counts."""
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)


async def _signals(ready: asyncio.Event, stop: asyncio.Event) -> None:
    """Kopf has taken the process's signals for itself by the time it is ready. It would end alone,
    and not before it has waited five seconds for tasks that are not its own."""
    await ready.wait()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    """Cancelled, Kopf ends at once; there is nothing of it that a crash would lose."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def settings(*, clusterwide: bool) -> kopf.OperatorSettings:
    """Every value that differs from Kopf's default.

    Peering would let a stray object freeze us, and discovery needs rights on the whole cluster.
    Timeouts bound every stall, and no list of waits ends (:class:`Backoffs`). Kopf posts no Events:
    it does not aggregate them. The last timeout stays below the pod's grace period.
    """
    found = kopf.OperatorSettings()
    found.peering.standalone = True
    found.scanning.disabled = not clusterwide
    found.posting.enabled = False
    found.watching.inactivity_timeout = 70
    # whole seconds: the API server refuses a watch with any other timeout
    found.watching.server_timeout = random.randint(270, 330)  # noqa: S311 - only a spread
    found.watching.client_timeout = found.watching.server_timeout + 10
    found.watching.connect_timeout = 10
    found.watching.reconnect_backoff = 1.0
    found.watching.chunk_size = 500
    found.watching.label_selectors[("", "v1", "pods")] = LABEL_RUN_UID
    found.networking.request_timeout = 30
    found.networking.connect_timeout = 10
    found.networking.error_backoffs = Backoffs()
    found.networking.enforce_retry_after = True
    found.queueing.exit_timeout = 5
    found.process.ultimate_exiting_timeout = 25
    return found


class Backoffs:
    """An endless list of waits: when Kopf's list ends, its watcher dies."""

    def __iter__(self) -> Iterator[float]:
        step = 0
        while True:
            yield min(0.5 * 2.0**step, 10.0) * (0.5 + random.random())  # noqa: S311 - only a spread
            step = min(step + 1, 10)


def register(registry: kopf.OperatorRegistry, operator: Operator) -> None:
    """The three handlers. Plain functions, because Kopf takes no methods."""

    @kopf.on.event(GROUP, VERSION, AGENTRUN_PLURAL, registry=registry)
    async def run_event(event: kopf.RawEvent, **_: Any) -> None:
        operator.meter.saw(AGENTRUN_PLURAL)
        on_run(operator, event.get("type"), event["object"])

    @kopf.on.event(GROUP, VERSION, APPROVAL_PLURAL, registry=registry)
    async def approval_event(event: kopf.RawEvent, **_: Any) -> None:
        operator.meter.saw(APPROVAL_PLURAL)
        on_approval(operator, event.get("type"), event["object"])

    @kopf.on.event("", "v1", "pods", registry=registry)
    async def pod_event(event: kopf.RawEvent, **_: Any) -> None:
        operator.meter.saw("pods")
        on_pod(operator, event.get("type"), event["object"])


def on_run(operator: Operator, kind: str | None, body: Any) -> None:
    """An AgentRun was listed (no type), added, modified or deleted."""
    put, remove = operator.cache.put_run, operator.cache.remove_run
    for run in readable(AgentRun, [body]):
        operator.wake(remove(run) if kind == DELETED else put(run))


def on_approval(operator: Operator, kind: str | None, body: Any) -> None:
    """An Approval was listed, added, modified or deleted."""
    for approval in readable(Approval, [body]):
        if kind == DELETED:
            key, uid = object_key(approval), approval.metadata.uid
            operator.queue.add(operator.cache.remove_approval(key, uid))
        else:
            operator.queue.add(operator.cache.put_approval(approval))


def on_pod(operator: Operator, kind: str | None, body: Any) -> None:
    """A pod with our label was listed, added, modified or deleted."""
    pod = pod_view(body)
    if kind == DELETED:
        operator.queue.add(operator.cache.remove_pod(pod.key, pod.uid))
    else:
        operator.queue.add(operator.cache.put_pod(pod))
