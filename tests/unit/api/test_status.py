"""Status stays small whatever the length of the run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agentrun.api import (
    AgentRunStatus,
    AttemptStatus,
    CheckpointStatus,
    Condition,
    ConditionStatus,
    ConditionType,
    ContinuedFrom,
    Fault,
    Phase,
    Position,
    Reason,
    TaskPhase,
    TaskStatus,
    TaskSummary,
    Usage,
)
from agentrun.api.status_size import STATUS_MAX, fitted, size

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
TRACE, SPAN = "a" * 32, "b" * 16


def attempt(number: int) -> AttemptStatus:
    return AttemptStatus(
        attempt=number,
        fence=number + 3,
        pod=f"{'r' * 46}-1a2b3-{number}",
        node="ip-10-0-123-456.eu-central-1.compute.internal",
        started_at=NOW,
        ended_at=NOW,
        cause="LeaseExpired",
        fault=Fault.INFRA,
        exit_code=137,
        last_seq=123_456,
        trace_id=TRACE,
        span_id=SPAN,
        continued_from=ContinuedFrom(attempt=number - 1, trace_id=TRACE, span_id=SPAN, seq=123_000),
    )


def full_status() -> AgentRunStatus:
    """Every list full, every field set, as after months of work."""
    run_conditions = list(ConditionType)[:7]
    return AgentRunStatus(
        observed_generation=12,
        phase=Phase.SUSPENDED,
        reason=Reason.APPROVAL_PENDING,
        message="waiting for 12 approvals; " + "m" * 100,
        run_id="i" * 46,
        attempt=4711,
        fence=5000,
        pod_name=f"{'r' * 46}-1a2b3-4711",
        node_name="ip-10-0-123-456.eu-central-1.compute.internal",
        attempts=tuple(attempt(number) for number in range(4702, 4712)),
        checkpoint=CheckpointStatus(
            seq=123_456, snapshot_seq=123_000, position=Position.AFTER_TOOLS, saved_at=NOW
        ),
        resumed_from_checkpoint=True,
        resume_position=Position.AFTER_MODEL,
        task_summary=TaskSummary(total=300, running=4, succeeded=100, failed=1, skipped=2),
        tasks=tuple(
            TaskStatus(
                name=f"task-{n}-{'t' * 20}",
                agent="agent",
                phase=TaskPhase.RUNNING,
                turns=30,
                tries=2,
            )
            for n in range(10)
        ),
        usage=Usage(turns=99_999, tool_calls=99_999, input_tokens=10**10, cost_usd="1234.567"),
        pending_approval_count=12,
        pending_approvals=tuple(f"{'r' * 46}-apr-{n:010x}" for n in range(10)),
        result="r" * 512,
        conditions=tuple(
            Condition(
                type=kind,
                status=ConditionStatus.FALSE,
                reason=Reason.APPROVAL_PENDING,
                message="waiting for people",
                last_transition_time=NOW,
                observed_generation=12,
            )
            for kind in run_conditions
        ),
        start_time=NOW,
        completion_time=NOW,
    )


def test_h56_a_status_with_every_list_full_is_cut_to_8_kb() -> None:
    full = full_status()
    small = fitted(full)
    assert size(full) > STATUS_MAX >= size(small)
    assert small.attempts == full.attempts[-len(small.attempts) :]
    assert len(small.attempts) >= 3
    assert (small.tasks, small.conditions, small.result) == (
        full.tasks,
        full.conditions,
        full.result,
    )


def test_a_status_that_fits_is_left_alone() -> None:
    status = full_status().model_copy(update={"attempts": (attempt(1),)})
    assert fitted(status) is status


@settings(deadline=None)
@given(
    text=st.text(min_size=1, max_size=512),
    node=st.text(alphabet="aä", max_size=253),
    conditions=st.integers(0, 16),
)
def test_h56_no_status_is_larger_than_8_kb(text: str, node: str, conditions: int) -> None:
    full = full_status()
    condition = full.conditions[0].model_copy(update={"message": text})
    status = full.model_copy(
        update={
            "message": text,
            "result": text * 2,
            "node_name": node,
            "conditions": tuple(
                condition.model_copy(update={"type": f"{'C' * 60}{n}"}) for n in range(conditions)
            ),
            "attempts": tuple(a.model_copy(update={"node": node}) for a in full.attempts),
        }
    )
    small = fitted(status)
    assert size(small) <= STATUS_MAX
    assert AgentRunStatus.model_validate(small.to_dict()) == small
    assert small.phase is status.phase
    assert len(small.conditions) == conditions


@pytest.mark.parametrize(
    ("field", "item"),
    [
        ("attempts", {"attempt": 1, "fence": 1}),
        ("tasks", {"name": "look"}),
        ("pendingApprovals", "incident-42-apr-1a2b3c4d5e"),
    ],
)
def test_h56_lists_in_status_hold_ten_items(field: str, item: Any) -> None:
    AgentRunStatus.model_validate({field: [item] * 10})
    with pytest.raises(ValidationError):
        AgentRunStatus.model_validate({field: [item] * 11})


def test_four_phases_are_terminal() -> None:
    assert {phase for phase in Phase if phase.terminal} == {
        Phase.SUCCEEDED,
        Phase.FAILED,
        Phase.CANCELLED,
        Phase.REJECTED,
    }


def test_reasons_are_condition_words() -> None:
    for reason in Reason:
        assert AgentRunStatus(reason=reason).reason == reason.value


def test_reasons_named_in_the_interface_exist() -> None:
    named = (
        "Queued, SessionBusy, ImagePull, Unschedulable, QuotaExceeded, ContainerConfig, "
        "PodNameConflict, ApprovalPending, SuspendedByUser, BudgetExceeded, ModelUnavailable, "
        "ToolServerUnavailable, DeadlineExceeded, RetriesExhausted, NoProgress, CheckpointCorrupt, "
        "CheckpointNewer, StoreRegressed, StoreUnavailable, ToolOutcomeUnknown, ModelError, "
        "ApprovalIdentityUnverified, InvalidSpec"
    )
    assert set(named.split(", ")) <= {reason.value for reason in Reason}
