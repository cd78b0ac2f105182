"""Events about what only the status tells: ends that the runner wrote itself, and waits (pure)."""

from __future__ import annotations

from agentrun.api import AgentRunStatus, Phase, Reason
from agentrun.controller.actions import Emit

TYPE_OF = {
    Phase.SUCCEEDED: "Normal",
    Phase.CANCELLED: "Normal",
    Phase.SUSPENDED: "Normal",
    Phase.FAILED: "Warning",
    Phase.REJECTED: "Warning",
}

NEEDS_SOMEBODY = frozenset(
    {
        Reason.POD_NAME_CONFLICT,
        Reason.QUOTA_EXCEEDED,
        Reason.CONTAINER_CONFIG,
        Reason.IMAGE_PULL,
        Reason.STORE_REGRESSED,
        Reason.CHECKPOINT_NEWER,
    }
)
"""Waits that do not end by themselves. No pod may exist that could have Events of its own."""


def status_event(old: AgentRunStatus | None, new: AgentRunStatus) -> Emit | None:
    """The Event that a change of phase or of what it waits for is worth; None for the others."""
    before = (old.phase, old.reason) if old is not None else None
    if before == (new.phase, new.reason):
        return None
    note = f"{new.reason}: {new.message}" if new.message else new.reason
    if new.phase is Phase.PENDING and new.reason in NEEDS_SOMEBODY:
        return Emit("Warning", str(new.reason), "Reconciling", note[:1024])
    kind = TYPE_OF.get(new.phase)
    if kind is None:
        return None
    return Emit(kind, new.phase.value, "Reconciling", note[:1024])
