"""What holds for every decision, wherever it is made."""

from __future__ import annotations

from agentrun.api import Approval, ApprovalState
from agentrun.errors import Conflict


def check_open(approval: Approval) -> None:
    """Conflict when it was decided already, or takes no decision any more."""
    spec = approval.spec
    state = approval.status.state if approval.status else ApprovalState.PENDING
    where = f"{approval.metadata.namespace}/{approval.metadata.name}"
    if spec.decision is not None:
        raise Conflict(
            f"it was decided already: {spec.decision} by {spec.decided_by}",
            attempted="decide",
            on=where,
        )
    if state is not ApprovalState.PENDING:
        raise Conflict(
            f"it is {state} and takes no decision any more", attempted="decide", on=where
        )
