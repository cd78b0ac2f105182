"""Small questions about a world that several topics ask. Times are the row's own."""

from __future__ import annotations

from datetime import datetime

from agentrun.api import AgentRun
from agentrun.api.names import pod_name
from agentrun.cluster.values import ObjectKey, PodView
from agentrun.controller.world import World
from agentrun.store.port import Seen
from agentrun.store.rows import AttemptRow, RunRow, RunState

NOT_SETTLED = "NotSettled"
"""Cause of an attempt that did not stop when it was asked to."""


def seen(row: RunRow) -> Seen:
    """What a statement repeats in its WHERE (H60)."""
    return Seen(row.run_uid, row.object_uid, row.fence, row.seq, row.state, row.holder)


def shows_end(run: AgentRun) -> bool:
    """Whether the status says that the run is over."""
    return run.status is not None and run.status.completion_time is not None


def elapsed(row: RunRow, moment: datetime) -> float:
    """Seconds from ``moment`` to the row's own clock; both are the database's."""
    return (row.db_now - moment).total_seconds()


def over(row: RunRow, moment: datetime | None) -> bool:
    """Whether ``moment`` has come; an absent one has."""
    return moment is None or moment <= row.db_now


def current_attempt(row: RunRow) -> AttemptRow | None:
    """The row of the attempt that owns the run, None before the first."""
    return next((a for a in reversed(row.attempts) if a.attempt == row.attempt), None)


def charged(row: RunRow) -> bool:
    """Whether the current attempt's end is recorded already and its back-off is running."""
    attempt = current_attempt(row)
    return row.state is RunState.ACTIVE and attempt is not None and attempt.ended_at is not None


def ours(world: World, pod: PodView) -> bool:
    """Whether a pod is provably ours: this object's, of this installation, with a fence (H21, H22)."""
    return (
        pod.owner_uid is not None
        and pod.owner_uid == object_uid(world)
        and pod.installation == world.settings.installation
        and pod.fence is not None
    )


def object_uid(world: World) -> str:
    """UID of the object this world is about."""
    return world.run.metadata.uid if world.run is not None else world.gone_uid


def current_pod_key(world: World, row: RunRow) -> ObjectKey:
    """Where the current attempt's pod is, or will be."""
    return ObjectKey(world.key.namespace, pod_name(row.name, row.object_uid, row.attempt))


def current_pod(world: World, row: RunRow) -> PodView | None:
    """What is known under the current attempt's pod name, ours or not; a live read beats the cache."""
    key = current_pod_key(world, row)
    if world.confirmed is not None and world.confirmed.name == key.name:
        return world.confirmed.pod
    return next((pod for pod in world.pods if pod.key == key), None)


def is_current(world: World, row: RunRow, pod: PodView) -> bool:
    """Whether the pod is ours and belongs to the current fence."""
    return ours(world, pod) and pod.fence == row.fence


def is_confirmed(world: World, row: RunRow) -> bool:
    """Whether the pod's name was read live for this very decision."""
    key = current_pod_key(world, row)
    return world.confirmed is not None and world.confirmed.name == key.name


def has_ended(pod: PodView) -> bool:
    """The runner container has ended, or the pod failed without ever running it (H32)."""
    return pod.runner_end is not None or pod.phase in ("Failed", "Succeeded")


def grace(world: World) -> float:
    """How long a pod may take to settle before the operator acts for it."""
    seconds = world.spec.pod.termination_grace_period_seconds if world.spec else 30
    return seconds + world.settings.settle_slack
