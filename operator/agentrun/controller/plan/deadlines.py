"""The start deadline and the wall deadline, both by the database's clock.

The start deadline holds until the first commit and never after: a run of three days whose seventh
attempt waits for a node is not killed (H33). What keeps a pod from starting before that consumes no
attempt; the run waits with the reason. A gated pod (a queue holds it) is only bounded by
``deadlineSeconds``.
"""

from __future__ import annotations

from datetime import datetime

from agentrun.api import AgentRunSpec, Reason
from agentrun.cluster.values import PodView
from agentrun.controller.plan.facts import NOT_SETTLED, current_pod, elapsed, is_current, ours
from agentrun.controller.world import World
from agentrun.store.rows import RunRow, RunState

WAITING = {
    "ErrImagePull": Reason.IMAGE_PULL,
    "ImagePullBackOff": Reason.IMAGE_PULL,
    "ErrImageNeverPull": Reason.IMAGE_PULL,
    "InvalidImageName": Reason.IMAGE_PULL,
    "ImageInspectError": Reason.IMAGE_PULL,
    "RegistryUnavailable": Reason.IMAGE_PULL,
    "CreateContainerConfigError": Reason.CONTAINER_CONFIG,
    "CreateContainerError": Reason.CONTAINER_CONFIG,
    "RunContainerError": Reason.CONTAINER_CONFIG,
    "FailedMount": Reason.CONTAINER_CONFIG,
    "CrashLoopBackOff": Reason.TOOL_SERVER_UNAVAILABLE,
    "Unschedulable": Reason.UNSCHEDULABLE,
    "SchedulingGated": Reason.QUEUED,
}
"""Why a pod waits, as kubelet and scheduler say it, to the closed set. A crash loop can only be a
sidecar's: the runner itself is never restarted."""

SUSPENDED = frozenset({RunState.SUSPENDED, NOT_SETTLED})
"""Causes of an attempt that ended because the run was suspended."""


def waiting_reason(world: World, row: RunRow) -> tuple[Reason, str] | None:
    """Why the current attempt cannot start, if something keeps it from it."""
    if row.state is not RunState.ACTIVE or row.holder is not None:
        return None
    pod = current_pod(world, row)
    if pod is not None and not ours(world, pod):
        return Reason.POD_NAME_CONFLICT, f"the pod name {pod.key.name} is taken by another owner"
    if pod is not None and is_current(world, row, pod):
        return _waits(pod)
    if world.trouble is not None:
        return world.trouble.reason, world.trouble.message
    return None


def _waits(pod: PodView) -> tuple[Reason, str] | None:
    if pod.waiting is None:
        return None
    word, text = pod.waiting
    reason = WAITING.get(word)
    return (reason, f"{word}: {text}".rstrip(": ")) if reason is not None else None


def start_deadline(world: World, spec: AgentRunSpec, row: RunRow) -> float | None:
    """Seconds until the first commit must be there; None when the deadline does not apply.

    An operator that was away has started nothing meanwhile, so each one waits for the whole of it.
    """
    if row.first_commit_at is not None or row.state is not RunState.ACTIVE:
        return None
    waits = waiting_reason(world, row)
    if waits is not None and waits[0] is Reason.QUEUED:
        return None
    since = _starting_since(row)
    if since is None:
        return None
    limit = spec.limits.start_deadline_seconds
    return limit - min(elapsed(row, since), world.freshness.since_start)


def _starting_since(row: RunRow) -> datetime | None:
    """The first mint since the run was last suspended: replaced pods do not restart the deadline,
    waiting for a person does not use it up."""
    since = None
    for attempt in reversed(row.attempts):
        if attempt.attempt != row.attempt and attempt.cause in SUSPENDED:
            break
        since = attempt.started_at
    return since


def wall_deadline(spec: AgentRunSpec, row: RunRow) -> float | None:
    """Seconds until ``deadlineSeconds`` since creation; waiting is included."""
    limit = spec.limits.deadline_seconds
    if limit is None:
        return None
    return limit - elapsed(row, row.created_at)


def wall_deadline_passed(spec: AgentRunSpec, row: RunRow) -> bool:
    """Whether the run has had its time."""
    left = wall_deadline(spec, row)
    return left is not None and left <= 0
