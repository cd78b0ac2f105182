"""An attempt that was minted and has not claimed yet (H16, H25, H65).

It is never re-minted by time: a pod may pull its image for an hour. It is re-minted when its pod is
being deleted (uncharged) or its container ended (charged). When the pod does not exist by a live
GET, the operator died between mint and pod, or another one is about to create it: same fence, one
more secret, create. So two operators cannot re-mint each other's pods for ever.
"""

from __future__ import annotations

from agentrun.api import AgentRunSpec
from agentrun.cluster.values import PodView
from agentrun.controller.actions import (
    Actions,
    AddSecret,
    ConfirmPod,
    CreatePod,
    DeletePod,
    Mint,
)
from agentrun.controller.plan.accounting import after_end
from agentrun.controller.plan.facts import (
    current_pod,
    current_pod_key,
    has_ended,
    is_confirmed,
    is_current,
    ours,
)
from agentrun.controller.plan.faults import NOBODY, whose_fault
from agentrun.controller.world import World
from agentrun.store.port import LEASE_EXPIRED, AttemptEnd
from agentrun.store.rows import RunRow


def unclaimed(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """The rule for an attempt that nobody has claimed."""
    if row.holder is not None:
        return None
    pod = current_pod(world, row)
    if pod is None:
        return _missing(world, row)
    if not is_current(world, row, pod):
        return _taken(world, row, pod)
    if pod.deleting:
        end = AttemptEnd("PodDeleted", NOBODY)
        return (Mint("terminating", end), CreatePod(avoided_node(world, row)))
    if has_ended(pod):
        verdict = whose_fault(world, row, pod)
        if verdict is not None:
            return after_end(world.settings, spec, row, verdict, "ended")
    return None


def _missing(world: World, row: RunRow) -> Actions:
    if world.trouble is not None and world.trouble.retry_in > 0:
        return ()
    if not is_confirmed(world, row):
        return (ConfirmPod(current_pod_key(world, row)),)
    return (AddSecret(), CreatePod(avoided_node(world, row)))


def _taken(world: World, row: RunRow, pod: PodView) -> Actions:
    """Somebody else's pod has the name: wait. A leftover that is provably ours is deleted (H22)."""
    if not is_confirmed(world, row):
        return (ConfirmPod(current_pod_key(world, row)),)
    if ours(world, pod) and pod.fence is not None and pod.fence < row.fence and not pod.deleting:
        return (DeletePod(pod.key, pod.uid),)
    return ()


def avoided_node(world: World, row: RunRow) -> str | None:
    """The node whose pod was taken over by lease expiry, found again after an operator's restart."""
    lost = {a.fence: a.node for a in row.attempts[-2:] if a.cause == LEASE_EXPIRED}
    nodes = [pod.node for pod in world.pods if ours(world, pod) and pod.fence in lost]
    return next((node for node in (*nodes, *lost.values()) if node), None)
