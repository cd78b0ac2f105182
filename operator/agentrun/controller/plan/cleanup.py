"""What is deleted when it is not needed any more: pods, Secrets, the finished object (TTL).

Pods of older fences go at once. A pod whose attempt settled gets its grace period to exit by itself.
The last failed pod is kept for an hour, so that somebody can look at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from agentrun.api import AgentRun, AgentRunSpec
from agentrun.cluster.values import PodView
from agentrun.controller.actions import Action, DeletePod, DeleteRun, PurgeSecrets
from agentrun.controller.plan.facts import charged, elapsed, grace, has_ended, ours, shows_end
from agentrun.controller.plan.faults import DRAINED
from agentrun.controller.world import World
from agentrun.store.rows import RunRow, RunState


def pods(world: World, row: RunRow) -> Iterator[Action]:
    """Pods that no attempt needs. Deleted under their UID, and only what is provably ours (H22)."""
    kept = kept_pod(world, row)
    for pod in world.pods:
        if pod.deleting or not ours(world, pod) or pod is kept:
            continue
        if unneeded(world, row, pod):
            yield DeletePod(pod.key, pod.uid)


def unneeded(world: World, row: RunRow, pod: PodView) -> bool:
    """Whether the pod's attempt is over for good."""
    if pod.fence is None or pod.fence > row.fence:
        return False
    if pod.fence < row.fence:
        return True
    since = settled_since(row)
    if since is None:
        return charged(row)
    return has_ended(pod) or elapsed(row, since) >= grace(world)


def settled_since(row: RunRow) -> datetime | None:
    """When the current attempt gave the run back; None while it owns it."""
    if row.state is RunState.SUSPENDED:
        return row.suspended_at
    return row.finished_at if row.state.terminal else None


def kept_pod(world: World, row: RunRow) -> PodView | None:
    """The last failed pod, for as long as it is kept."""
    failed = [pod for pod in world.pods if ours(world, pod) and _failed(pod)]
    last = max(failed, key=lambda pod: pod.fence or 0, default=None)
    if last is None:
        return None
    left = kept_for(world, row, last)
    return last if left is not None and left > 0 else None


def kept_for(world: World, row: RunRow, pod: PodView) -> float | None:
    """Seconds that a failed pod is still kept, by the database's clock."""
    ends = [a.ended_at for a in row.attempts if a.fence == pod.fence and a.ended_at is not None]
    ended = ends[-1] if ends else row.finished_at
    return None if ended is None else world.settings.keep_failed_pod - elapsed(row, ended)


def _failed(pod: PodView) -> bool:
    if pod.runner_end is None:
        return pod.phase == "Failed"
    return pod.runner_end.exit_code not in (0, DRAINED)


def secrets(world: World, row: RunRow) -> Iterator[Action]:
    """After the claim no other Secret of this and older fences is needed; after the end none at all.

    A pod that exits by itself is waited for; one that is being deleted needs nothing any more.
    """
    if not world.stray_secrets or not row.attempt:
        return
    if row.state is RunState.ACTIVE:
        if row.holder is not None:
            yield PurgeSecrets()
    elif all(has_ended(pod) or pod.deleting for pod in world.pods if ours(world, pod)):
        yield PurgeSecrets()


def ttl(spec: AgentRunSpec, row: RunRow) -> Iterator[Action]:
    """``ttlSecondsAfterFinished``, by the database's clock; never unless asked for (H11)."""
    left = ttl_left(spec, row)
    if left is not None and left <= 0:
        yield DeleteRun()


def ttl_left(spec: AgentRunSpec, row: RunRow) -> float | None:
    """Seconds until the finished object is deleted; None: it is kept."""
    limit = spec.ttl_seconds_after_finished
    if limit is None or not row.state.terminal or row.finished_at is None:
        return None
    return limit - elapsed(row, row.finished_at)


def cleanup_actions(
    world: World, run: AgentRun, spec: AgentRunSpec, row: RunRow
) -> Iterator[Action]:
    """All of it. Secrets go before the pods that name them; the object goes last, and only once
    its status has been written."""
    yield from secrets(world, row)
    yield from pods(world, row)
    if shows_end(run):
        yield from ttl(spec, row)
