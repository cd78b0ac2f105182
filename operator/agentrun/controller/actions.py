"""What a plan may ask for, as frozen values. Performing one twice is harmless.

At most one action of a plan changes the row; its reason is repeated in the statement (H60), and
when the row has moved meanwhile nothing that follows it is performed.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrun.api import AgentRunStatus, Approval, ApprovalState
from agentrun.cluster.values import ObjectKey
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import ApprovalRow, Budgets, Requested, RunState


@dataclass(frozen=True, slots=True)
class OpenRun:
    """Capture the spec and make the row."""


@dataclass(frozen=True, slots=True)
class SetRequested:
    """Write what is wanted of the runner, for this object and generation only (H63)."""

    requested: Requested
    reason: str
    by: str
    budgets: Budgets
    generation: int


@dataclass(frozen=True, slots=True)
class Mint:
    """The next attempt: fence + 1, fresh secret. ``end`` is the end of the one before, if new."""

    because: str
    end: AttemptEnd | None = None


@dataclass(frozen=True, slots=True)
class AddSecret:
    """One more secret for an unclaimed fence whose pod was never created (H25)."""


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Secret and pod of the current attempt, with the secret issued just before."""

    avoid_node: str | None = None


@dataclass(frozen=True, slots=True)
class DeletePod:
    """A pod that is provably ours, under its UID."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class ConfirmPod:
    """A live GET, then plan again with its answer."""

    key: ObjectKey


@dataclass(frozen=True, slots=True)
class Charge:
    """Record how the attempt ended and count its fault; the mint follows after the back-off."""

    end: AttemptEnd
    backoff_ms: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The operator's own outcome; raises the fence (H61)."""

    state: RunState
    reason: str
    message: str
    end: AttemptEnd | None = None


@dataclass(frozen=True, slots=True)
class Suspend:
    """Suspended by the operator, because the pod did not settle; raises the fence."""

    reason: str
    message: str
    end: AttemptEnd | None = None


@dataclass(frozen=True, slots=True)
class Revoke:
    """The object is going or gone: no owner may write any more (only for this object, H64)."""

    run_uid: str
    object_uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class CreateApproval:
    """The object of a question, and its UID into the row. ``replaces`` is the UID it had there."""

    request: ApprovalRow
    replaces: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteApproval:
    """An object that is not the one the row knows (H71)."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class Decide:
    """Consume a decision; ``mint`` allows the next attempt if nothing else is pending."""

    request: ApprovalRow
    object_uid: str
    decision: str
    decided_by: str
    reason: str
    mint: bool


@dataclass(frozen=True, slots=True)
class MarkApproval:
    """Write an Approval's status, under its resourceVersion."""

    approval: Approval
    state: ApprovalState
    message: str = ""
    consumed: bool = False


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """The TTL is over."""


@dataclass(frozen=True, slots=True)
class PurgeSecrets:
    """Delete attempt Secrets that no pod needs any more."""


@dataclass(frozen=True, slots=True)
class Emit:
    """Post an Event about the run."""

    type: str
    reason: str
    action: str
    note: str


Action = (
    OpenRun
    | SetRequested
    | Mint
    | AddSecret
    | CreatePod
    | DeletePod
    | ConfirmPod
    | Charge
    | Finish
    | Suspend
    | Revoke
    | CreateApproval
    | DeleteApproval
    | Decide
    | MarkApproval
    | DeleteRun
    | PurgeSecrets
    | Emit
)

Actions = tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, what to show, and when to look again at the latest.

    ``status`` is None when nothing may be written (a foreign run, a deleted one).
    """

    actions: Actions = ()
    status: AgentRunStatus | None = None
    requeue_after: float | None = None
    settled: bool = False
    """Nothing but a change of the object can make another plan of it."""
