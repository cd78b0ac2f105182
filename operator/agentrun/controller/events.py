"""Events about ends that the runner wrote itself: the operator sees them only in the row (pure)."""

from __future__ import annotations

from agentrun.api import AgentRunStatus, Phase
from agentrun.controller.actions import Emit

TYPE_OF = {
    Phase.SUCCEEDED: "Normal",
    Phase.CANCELLED: "Normal",
    Phase.SUSPENDED: "Normal",
    Phase.FAILED: "Warning",
    Phase.REJECTED: "Warning",
}


def outcome_event(old: AgentRunStatus | None, new: AgentRunStatus) -> Emit | None:
    """The Event that a change of phase is worth; None for the others."""
    before = (old.phase, old.reason) if old is not None else None
    kind = TYPE_OF.get(new.phase)
    if kind is None or before == (new.phase, new.reason):
        return None
    note = f"{new.reason}: {new.message}" if new.message else new.reason
    return Emit(kind, new.phase.value, "Reconciling", note[:1024])
