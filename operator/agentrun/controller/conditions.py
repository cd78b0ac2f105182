"""Conditions in the standard six fields, compatible with kstatus.

Failed and Rejected are Stalled, the other ends are Ready, everything else is in progress. The
transition time changes with the status alone. Conditions of other writers are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from agentrun.api import Condition, ConditionStatus, ConditionType, Phase, Reason
from agentrun.controller.summary import Summary, reason_or_nothing, waiting_for
from agentrun.controller.world import World

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
MESSAGE_MAX = 512
MAX = 16

UNHEALTHY = frozenset(
    {
        Reason.CHECKPOINT_CORRUPT,
        Reason.CHECKPOINT_NEWER,
        Reason.STORE_REGRESSED,
        Reason.STORE_UNAVAILABLE,
        Reason.SAVE_FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """One condition before it has a time."""

    type: ConditionType
    status: ConditionStatus
    reason: str
    message: str = ""


def conditions(world: World, summary: Summary, old: Iterable[Condition]) -> tuple[Condition, ...]:
    """All of ours, in a fixed order, and what others wrote."""
    known = {condition.type: condition for condition in old}
    moment = world.row.db_now if world.row is not None else world.now
    generation = world.run.metadata.generation if world.run is not None else 0
    ours = tuple(
        _stamped(value, known.get(value.type), moment, generation)
        for value in condition_values(world, summary)
    )
    names = {condition.type for condition in ours}
    others = tuple(condition for name, condition in known.items() if name not in names)
    return (*ours, *others)[:MAX]


def condition_values(world: World, summary: Summary) -> tuple[ConditionValue, ...]:
    """What is said about the run now."""
    phase, message = summary.phase, summary.message
    why = reason_or_nothing(summary.reason) or Reason.RUNNING.value
    ended = phase.terminal
    good = phase in (Phase.SUCCEEDED, Phase.CANCELLED)
    bad = ended and not good
    succeeded = UNKNOWN if not ended else (TRUE if phase is Phase.SUCCEEDED else FALSE)
    not_yet = Reason.NOT_FINISHED.value
    return (
        ConditionValue(ConditionType.READY, TRUE if good else FALSE, why, message),
        ConditionValue(ConditionType.SUCCEEDED, succeeded, why if ended else not_yet, message),
        ConditionValue(ConditionType.FINISHED, TRUE if ended else FALSE, why if ended else not_yet),
        ConditionValue(ConditionType.RECONCILING, TRUE if summary.moving else FALSE, why),
        ConditionValue(
            ConditionType.STALLED,
            TRUE if bad else FALSE,
            why if bad else Reason.NOT_NEEDED.value,
            message if bad else "",
        ),
        _awaiting(world, ended),
        _checkpoint(world, summary),
    )


def _awaiting(world: World, ended: bool) -> ConditionValue:
    count = len(world.row.pending_approvals) if world.row is not None and not ended else 0
    if not count:
        return ConditionValue(ConditionType.AWAITING_APPROVAL, FALSE, Reason.NOT_NEEDED.value)
    message = waiting_for(count)
    return ConditionValue(
        ConditionType.AWAITING_APPROVAL, TRUE, Reason.APPROVAL_PENDING.value, message
    )


def _checkpoint(world: World, summary: Summary) -> ConditionValue:
    kind = ConditionType.CHECKPOINT_HEALTHY
    if not world.store_up:
        return ConditionValue(
            kind, FALSE, Reason.STORE_UNAVAILABLE.value, "the store does not answer"
        )
    if summary.reason in UNHEALTHY:
        return ConditionValue(kind, FALSE, str(summary.reason), summary.message)
    if world.row is None or not world.row.attempt:
        return ConditionValue(kind, UNKNOWN, Reason.NOT_FINISHED.value)
    return ConditionValue(kind, TRUE, Reason.CHECKPOINT_SAVED.value)


def _stamped(
    value: ConditionValue, old: Condition | None, moment: datetime, generation: int
) -> Condition:
    same = old is not None and old.status is value.status
    return Condition(
        type=value.type,
        status=value.status,
        reason=value.reason,
        message=value.message[:MESSAGE_MAX],
        last_transition_time=old.last_transition_time if same and old is not None else moment,
        observed_generation=generation,
    )
