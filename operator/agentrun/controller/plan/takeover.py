"""Taking a run from an attempt that has ended, is gone, or does not renew.

Only in state Active: a suspended, revoked or terminal run has nothing to take over (H62). A cached
end or deletion is a fact, because neither is ever undone; a cached absence is not, so it is
confirmed by a live GET first (H14). An expired lease is believed only while this process has been
in touch with the store long enough to know that the runner could have renewed (H15, H70).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrun.api import AgentRunSpec, OnUnreachable, Persistence
from agentrun.cluster.values import PodView
from agentrun.controller.actions import Actions, ConfirmPod
from agentrun.controller.plan.accounting import after_end
from agentrun.controller.plan.facts import (
    current_pod,
    current_pod_key,
    has_ended,
    is_confirmed,
)
from agentrun.controller.plan.faults import Verdict, whose_fault
from agentrun.controller.world import Freshness, World
from agentrun.store.rows import RunRow


@dataclass(frozen=True, slots=True)
class Ended:
    """The attempt is over. ``because`` is what the mint repeats in its WHERE (H60)."""

    verdict: Verdict
    because: str


def end_of_claimed(world: World, spec: AgentRunSpec, row: RunRow) -> Ended | Actions:
    """How the claimed attempt ended, or what must be looked at first; empty: it has not ended."""
    pod = current_pod(world, row)
    if pod is not None and pod.uid == row.holder and has_ended(pod):
        return _ended(world, row, pod, "ended")
    if pod is None or pod.uid != row.holder:
        if not is_confirmed(world, row):
            return (ConfirmPod(current_pod_key(world, row)),)
        return _ended(world, row, None, "gone")
    if not row.lease_expired or waits_for_pod(spec) or not leases_believable(world, row):
        return ()
    if not is_confirmed(world, row):
        return (ConfirmPod(current_pod_key(world, row)),)
    return _ended(world, row, pod, "lease-expired")


def _ended(world: World, row: RunRow, pod: PodView | None, because: str) -> Ended | Actions:
    verdict = whose_fault(world, row, pod)
    return Ended(verdict, because) if verdict is not None else ()


def take_over(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """The rule for a claimed attempt while the run is to go on."""
    if row.holder is None:
        return None
    found = end_of_claimed(world, spec, row)
    if not isinstance(found, Ended):
        return found or None
    avoid = avoided(world, row, found.because)
    return after_end(world.settings, spec, row, found.verdict, found.because, avoid)


def avoided(world: World, row: RunRow, because: str) -> str | None:
    """After a takeover by lease expiry the next pod avoids the node that does not answer."""
    pod = current_pod(world, row)
    return pod.node if because == "lease-expired" and pod is not None else None


def waits_for_pod(spec: AgentRunSpec) -> bool:
    """``WaitForPod``, and workspaces on a volume, which only one node can hold."""
    return spec.lease.on_unreachable is OnUnreachable.WAIT_FOR_POD or any(
        server.workspace is not None and server.workspace.persistence is Persistence.VOLUME
        for server in spec.tool_servers
    )


def leases_believable(world: World, row: RunRow) -> bool:
    """Whether an expired lease says something about the pod and not about the store."""
    return lease_embargo(world.freshness, row) <= 0


def lease_embargo(freshness: Freshness, row: RunRow) -> float:
    """Seconds until expired leases are believed: one TTL after the operator's start, and after any
    stretch of more than TTL/3 without a successful poll."""
    ttl = row.lease_ttl_ms / 1000
    if freshness.since_poll is None or freshness.since_poll > ttl / 3:
        return ttl
    gaps = (gap.ended_ago for gap in freshness.gaps if gap.length > ttl / 3)
    return max(0.0, *(ttl - age for age in (freshness.since_start, *gaps)))
