"""Whose fault the end of an attempt was: one ordered list, first match (H73).

The list is a list because two signs can be there at once (out of memory and an expired lease), and
which of them is looked at first must not be luck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentrun.api import Reason
from agentrun.cluster.values import ContainerEnd, PodView
from agentrun.controller.plan.facts import has_ended
from agentrun.controller.world import World
from agentrun.run.display import shown
from agentrun.run.exact import parse_json
from agentrun.store.port import LEASE_EXPIRED, AttemptEnd
from agentrun.store.rows import RunRow, RunState

BAD_CONFIGURATION, RETRYABLE, DRAINED = 78, 75, 143
NOBODY, INFRA, APP = "None", "Infra", "App"

HINTS = frozenset(
    {
        Reason.BAD_CONFIGURATION,
        Reason.CHECKPOINT_CORRUPT,
        Reason.INVALID_SPEC,
        Reason.MODEL_ERROR,
        Reason.SAVE_FAILED,
        Reason.TOOL_OUTCOME_UNKNOWN,
        Reason.TOOL_SERVER_UNAVAILABLE,
        Reason.MODEL_UNAVAILABLE,
        Reason.STORE_UNAVAILABLE,
        Reason.STORE_REGRESSED,
        Reason.CHECKPOINT_NEWER,
    }
)
"""Reasons that a runner's termination line may give. They name what happened; only those in
``UNUSABLE`` change who pays for it."""
UNUSABLE = frozenset({Reason.CHECKPOINT_NEWER, Reason.STORE_REGRESSED})
"""The record cannot be gone on with, now and from here, and the runner did not try."""
HINT_MAX = 512


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the attempt ended. ``fatal`` ends the run, whatever is left of its retries."""

    end: AttemptEnd
    fatal: Reason | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """What the list looks at: the row, and the pod as the cluster shows it (None: it is gone)."""

    world: World
    row: RunRow
    pod: PodView | None


def reported(end: ContainerEnd | None) -> tuple[Reason | None, str]:
    """Reason and text of the termination line ``{"reason": ..., "message": ...}``, if there is one."""
    try:
        value = parse_json(end.message) if end is not None and end.message else None
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(value, dict):
        return None, ""
    reason = str(value.get("reason", ""))
    text = shown(str(value.get("message", "")), HINT_MAX)
    return Reason(reason) if reason in HINTS else None, text


def exit_code(case: Case) -> int | None:
    """The runner's exit code, if its container ended."""
    end = case.pod.runner_end if case.pod is not None else None
    return end.exit_code if end is not None else None


def _not_active(case: Case) -> Verdict | None:
    """A suspended, revoked or finished run has nothing to take over (H62)."""
    return _verdict(case, "NotActive", NOBODY) if case.row.state is not RunState.ACTIVE else None


def _fence_moved(case: Case) -> Verdict | None:
    moved = case.pod is not None and case.pod.fence != case.row.fence
    return _verdict(case, "Fenced", NOBODY) if moved else None


def _never_claimed(case: Case) -> Verdict | None:
    """Nothing was done under this fence, and somebody took the pod away."""
    if case.row.holder is None and (case.pod is None or case.pod.deleting):
        return _verdict(case, "PodDeleted", NOBODY)
    return None


def _unusable_record(case: Case) -> Verdict | None:
    """A newer release wrote it (H29), or the store lost a part of it: wait, consume nothing."""
    reason, text = reported(case.pod.runner_end if case.pod else None)
    return _verdict(case, reason, NOBODY, message=text) if reason in UNUSABLE else None


def _bad_configuration(case: Case) -> Verdict | None:
    if exit_code(case) != BAD_CONFIGURATION or case.pod is None:
        return None
    reason, text = reported(case.pod.runner_end)
    fatal = reason or Reason.BAD_CONFIGURATION
    message = text or "the runner refuses its configuration (exit code 78)"
    return _verdict(case, fatal, NOBODY, fatal=fatal, message=message)


def _own_limits(case: Case) -> Verdict | None:
    """Out of memory, or evicted because the pod broke its own limit (H31)."""
    pod = case.pod
    if pod is None:
        return None
    if pod.runner_end is not None and pod.runner_end.reason == "OOMKilled":
        return _verdict(case, "OOMKilled", APP)
    if pod.evicted and not pod.disrupted:
        return _verdict(case, "Evicted", APP)
    return None


def _taken_away(case: Case) -> Verdict | None:
    """Preempted, drained, deleted, killed by hand, lost with its node, or gone."""
    pod = case.pod
    if pod is None:
        return _verdict(case, "PodGone", INFRA)
    if pod.disrupted:
        return _verdict(case, "Disrupted", INFRA)
    if pod.deleting and has_ended(pod):
        return _verdict(case, "PodDeleted", INFRA)
    if pod.killed_by_user and has_ended(pod):
        return _verdict(case, "KilledByUser", INFRA)
    if exit_code(case) == DRAINED:
        return _verdict(case, "Drained", INFRA)
    if exit_code(case) == RETRYABLE and store_was_away(case):
        return _verdict(case, "StoreUnavailable", INFRA)
    if has_ended(pod) and pod.runner_end is None:
        return _verdict(case, "PodFailed", INFRA)
    return None


def _ended(case: Case) -> Verdict | None:
    """Any other end of the container, 137 and 79 at the current fence included."""
    if case.pod is None or not has_ended(case.pod):
        return None
    _, text = reported(case.pod.runner_end)
    return _verdict(case, "RunnerFailed", APP, message=text)


def _lease(case: Case) -> Verdict | None:
    """No sign of an end, but no renewal either (H73: only after a live read found no end)."""
    return _verdict(case, LEASE_EXPIRED, INFRA) if case.row.lease_expired else None


LIST: tuple[Callable[[Case], Verdict | None], ...] = (
    _not_active,
    _fence_moved,
    _never_claimed,
    _unusable_record,
    _bad_configuration,
    _own_limits,
    _taken_away,
    _ended,
    _lease,
)


def whose_fault(world: World, row: RunRow, pod: PodView | None) -> Verdict | None:
    """The verdict on the attempt, or None while nothing says that it has ended."""
    case = Case(world, row, pod)
    return next((verdict for rule in LIST if (verdict := rule(case)) is not None), None)


def store_was_away(case: Case) -> bool:
    """An outage that this process saw, or a lease that the runner could not renew, explains a 75."""
    if case.row.lease_expired:
        return True
    world = case.world
    ttl = case.row.lease_ttl_ms / 1000
    stall = world.spec.lease.stall_seconds if world.spec is not None else 0
    poll = world.freshness.since_poll
    if poll is None or poll > ttl / 3:
        return True
    return any(gap.length > ttl / 3 and gap.ended_ago < ttl + stall for gap in world.freshness.gaps)


def _verdict(
    case: Case, cause: str, fault: str, *, fatal: Reason | None = None, message: str = ""
) -> Verdict:
    return Verdict(AttemptEnd(str(cause), fault, exit_code(case)), fatal, message)
