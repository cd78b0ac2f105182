"""A run that has an owner: the ordered list of rules for state Active."""

from __future__ import annotations

from agentrun.api import AgentRunSpec, Reason
from agentrun.controller.actions import Actions, CreatePod, Finish, Mint
from agentrun.controller.plan.deadlines import start_deadline, waiting_reason
from agentrun.controller.plan.facts import charged, current_attempt, over
from agentrun.controller.plan.settle import settle
from agentrun.controller.plan.takeover import take_over
from agentrun.controller.plan.unclaimed import avoided_node, unclaimed
from agentrun.controller.world import World
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import RunRow, RunState


def active(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """First rule that applies; None when the attempt is to be left alone."""
    if row.state is not RunState.ACTIVE:
        return None
    for rule in (settle, after_backoff, too_late_to_start, take_over, unclaimed):
        actions = rule(world, spec, row)
        if actions is not None:
            return actions
    return None


def after_backoff(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """The attempt's end was charged: the next one starts when the back-off is over."""
    if not charged(row):
        return None
    if not over(row, row.retry_at):
        return ()
    return (Mint("charged"), CreatePod(avoided_node(world, row)))


def too_late_to_start(world: World, spec: AgentRunSpec, row: RunRow) -> Actions | None:
    """No first commit within ``startDeadlineSeconds`` (H33: never after the first one)."""
    left = start_deadline(world, spec, row)
    if left is None or left > 0:
        return None
    waits = waiting_reason(world, row)
    why = f"{waits[0]}: {waits[1]}" if waits is not None else _unsaid(row)
    message = f"no first commit within {spec.limits.start_deadline_seconds} s ({why})"
    return (
        Finish(
            RunState.FAILED,
            Reason.START_DEADLINE_EXCEEDED,
            message,
            None if _already_ended(row) else AttemptEnd("StartDeadlineExceeded", "None"),
        ),
    )


def _unsaid(row: RunRow) -> str:
    """Where to look when the cluster gives no reason."""
    if row.holder is not None:
        return "its attempt runs and has committed nothing; its log says what it waits for"
    return "no reason is known"


def _already_ended(row: RunRow) -> bool:
    attempt = current_attempt(row)
    return attempt is not None and attempt.ended_at is not None
