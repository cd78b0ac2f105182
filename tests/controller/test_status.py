"""The projection World -> status (H56)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.worlds import (
    NOW,
    ago,
    ahead,
    approval,
    attempt,
    charged_row,
    expired_row,
    pending_row,
    pod,
    request,
    row,
    run,
    spec,
    suspended_row,
    terminal_row,
    unclaimed_row,
    waiting_pod,
    world,
)

from agentrun.api import (
    AgentRunStatus,
    Condition,
    ConditionStatus,
    Reason,
    TaskPhase,
    TaskStatus,
)
from agentrun.api.status_size import STATUS_MAX, size
from agentrun.controller.history import most_telling
from agentrun.controller.status import needs_patch, project
from agentrun.controller.world import Trouble, World
from agentrun.store.rows import Requested, RunState, TotalsRow

LATER = unclaimed_row(
    attempt=2, fence=2, first_commit_at=ago(minutes=20), attempts=(attempt(1), attempt(2))
)


def shown(at: World) -> AgentRunStatus:
    """The status; fails when there is none."""
    found = project(at)
    assert found is not None
    return found


def conditions(at: World) -> dict[str, str]:
    """Type to status."""
    return {c.type: str(c.status) for c in shown(at).conditions}


@pytest.mark.parametrize(
    ("at", "phase", "reason"),
    [
        (world(row=None, pods=()), "Pending", "Queued"),
        (world(row=pending_row(), pods=()), "Pending", "Queued"),
        (world(row=unclaimed_row()), "Pending", "Starting"),
        (world(row=unclaimed_row(), pods=(waiting_pod("ErrImagePull"),)), "Pending", "ImagePull"),
        (world(), "Running", ""),
        (world(row=LATER, pods=(pod(2),)), "Running", "Resuming"),
        (world(row=charged_row(), pods=()), "Pending", "BackOff"),
        (world(row=row(requested=Requested.SUSPEND)), "Running", "Suspending"),
        (world(row=row(requested=Requested.CANCEL)), "Running", "Cancelling"),
        (world(row=suspended_row(pending_approvals=(request(),))), "Suspended", "ApprovalPending"),
        (world(row=suspended_row(reason="BudgetExceeded")), "Suspended", "BudgetExceeded"),
        (world(row=suspended_row(reason="ModelUnavailable")), "Suspended", "ModelUnavailable"),
        (
            world(
                row=suspended_row(
                    requested=Requested.SUSPEND,
                    requested_reason="User",
                    pending_approvals=(request(),),
                )
            ),
            "Suspended",
            "SuspendedByUser",
        ),
        (world(row=terminal_row()), "Succeeded", "Succeeded"),
        (world(row=terminal_row(RunState.FAILED, reason="NoProgress")), "Failed", "NoProgress"),
        (
            world(row=terminal_row(RunState.CANCELLED, reason="CancelledByUser")),
            "Cancelled",
            "CancelledByUser",
        ),
        (
            world(row=terminal_row(RunState.REJECTED, reason="ApprovalDenied")),
            "Rejected",
            "ApprovalDenied",
        ),
        (world(row=terminal_row(RunState.REVOKED, reason="Deleted")), "Cancelled", "Revoked"),
    ],
)
def test_phase_and_reason(at: World, phase: str, reason: str) -> None:
    assert (shown(at).phase, shown(at).reason) == (phase, reason)


def test_waiting_for_an_unreachable_pod_says_so() -> None:
    at = world(row=expired_row(), spec=spec(lease={"onUnreachable": "WaitForPod"}))
    assert "waiting for the pod" in shown(at).message


def kstatus(at: World) -> str:
    """The five rules of kstatus."""
    status, said = shown(at), conditions(at)
    assert at.run is not None
    if at.run.metadata.deletion_timestamp is not None:
        return "Terminating"
    if status.observed_generation != at.run.metadata.generation or said["Reconciling"] == "True":
        return "InProgress"
    if said["Stalled"] == "True":
        return "Failed"
    return "Current" if said["Ready"] == "True" else "InProgress"


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (world(row=None, pods=()), "InProgress"),
        (world(row=pending_row(), pods=()), "InProgress"),
        (world(row=unclaimed_row()), "InProgress"),
        (world(), "InProgress"),
        (world(row=charged_row()), "InProgress"),
        (world(row=suspended_row(pending_approvals=(request(),))), "InProgress"),
        (world(row=terminal_row()), "Current"),
        (world(row=terminal_row(RunState.CANCELLED)), "Current"),
        (world(row=terminal_row(RunState.FAILED)), "Failed"),
        (world(row=terminal_row(RunState.REJECTED)), "Failed"),
        (world(row=None, pods=(), problems=("bad",)), "Failed"),
    ],
)
def test_kstatus_tells_live_finished_and_failed_runs_apart(at: World, expected: str) -> None:
    assert kstatus(at) == expected


@pytest.mark.parametrize(
    ("state", "succeeded", "finished"),
    [
        (RunState.SUCCEEDED, "True", "True"),
        (RunState.FAILED, "False", "True"),
        (RunState.REJECTED, "False", "True"),
        (RunState.CANCELLED, "False", "True"),
    ],
)
def test_finished_and_succeeded_at_the_end(state: RunState, succeeded: str, finished: str) -> None:
    said = conditions(world(row=terminal_row(state)))
    assert (said["Succeeded"], said["Finished"]) == (succeeded, finished)


@pytest.mark.parametrize("the_row", [pending_row(), unclaimed_row(), row(), suspended_row()])
def test_succeeded_is_unknown_until_then(the_row: Any) -> None:
    said = conditions(world(row=the_row))
    assert (said["Succeeded"], said["Finished"]) == ("Unknown", "False")


def test_every_condition_is_there_from_the_first_visit() -> None:
    assert set(conditions(world(row=None, pods=()))) == {
        "Ready",
        "Succeeded",
        "Finished",
        "Reconciling",
        "Stalled",
        "AwaitingApproval",
        "CheckpointHealthy",
    }


def test_the_observed_generation_is_in_each_condition() -> None:
    at = world(run=run(generation=7), row=row(generation=7))
    assert {c.observed_generation for c in shown(at).conditions} == {7}
    assert shown(at).observed_generation == 7


def test_transition_times_change_with_the_status_only() -> None:
    before = shown(world())
    later = replace(row(), db_now=ago(seconds=-60), requested=Requested.SUSPEND)
    after = shown(world(run=run(status=before), row=later))
    assert after.reason == "Suspending"
    assert {c.type: c.last_transition_time for c in after.conditions} == {
        c.type: c.last_transition_time for c in before.conditions
    }
    over = replace(terminal_row(), db_now=ago(seconds=-60))
    ended = {c.type: c for c in shown(world(run=run(status=before), row=over)).conditions}
    assert ended["Finished"].last_transition_time == ago(seconds=-60)
    assert ended["Stalled"].last_transition_time == NOW


def test_conditions_of_other_writers_are_kept() -> None:
    theirs = Condition(
        type="Billed",
        status=ConditionStatus.TRUE,
        reason="Yes",
        last_transition_time=ago(days=1),
    )
    at = world(run=run(status=AgentRunStatus(conditions=(theirs,))))
    assert theirs in shown(at).conditions


@pytest.mark.parametrize(
    ("at", "status", "reason"),
    [
        (world(row=pending_row()), "Unknown", "NotFinished"),
        (world(), "True", "CheckpointSaved"),
        (
            world(row=terminal_row(RunState.FAILED, reason="CheckpointCorrupt")),
            "False",
            "CheckpointCorrupt",
        ),
        (world(unreadable=Reason.CHECKPOINT_NEWER), "False", "CheckpointNewer"),
    ],
)
def test_checkpoint_healthy_says_what_is_wrong_with_the_record(
    at: World, status: str, reason: str
) -> None:
    (said,) = [c for c in shown(at).conditions if c.type == "CheckpointHealthy"]
    assert (said.status, said.reason) == (status, reason)


@pytest.mark.parametrize("cause", ["CheckpointNewer", "StoreRegressed"])
def test_a_run_whose_record_cannot_be_gone_on_with_waits_and_says_why(cause: str) -> None:
    lost = attempt(1, ended_at=ago(minutes=1), cause=cause, fault="None")
    waiting = shown(world(row=row(attempts=(lost,), retry_at=ahead(minutes=4))))
    assert (waiting.phase, waiting.reason) == ("Pending", cause)
    (healthy,) = [c for c in waiting.conditions if c.type == "CheckpointHealthy"]
    assert (healthy.status, healthy.reason) == ("False", cause)


def test_attempts_are_linked_to_the_one_before() -> None:
    lost = attempt(1, ended_at=ago(minutes=10), cause="LeaseExpired", fault="Infra", last_seq=14)
    two = row(
        attempt=2, fence=2, holder="pod-2", attempts=(lost, attempt(2, continued_from_seq=14))
    )
    first, second = shown(world(row=two, pods=(pod(2),))).attempts
    assert (first.cause, first.fault, first.last_seq, first.continued_from) == (
        "LeaseExpired",
        "Infra",
        14,
        None,
    )
    link = second.continued_from
    assert link is not None
    assert (link.attempt, link.trace_id, link.span_id, link.seq) == (
        1,
        first.trace_id,
        first.span_id,
        14,
    )


def test_nobodys_fault_is_absent() -> None:
    ended = attempt(1, ended_at=ago(minutes=1), cause="Suspended", fault="None")
    assert shown(world(row=suspended_row(attempts=(ended,)))).attempts[0].fault is None


def test_pod_and_node_while_an_attempt_owns_the_run() -> None:
    status = shown(world())
    assert (status.pod_name, status.node_name) == (pod().key.name, "n1")
    over = shown(world(row=terminal_row()))
    assert (over.pod_name, over.node_name) == ("", "")


def test_usage_is_the_sum_of_the_row() -> None:
    totals = TotalsRow(7, 5, 100, 20, 30, 40, 120_000_000_000)
    priced = spec(pricing={"inputPerMTok": "3", "outputPerMTok": "15"})
    usage = shown(world(row=row(totals=totals), spec=priced)).usage
    assert usage is not None
    assert (usage.turns, usage.tool_calls, usage.total_tokens, usage.cost_usd) == (
        7,
        5,
        190,
        "0.12",
    )


@pytest.mark.parametrize("count", [-1, -(2**63), 10**15 + 1, 2**63 - 1])
def test_a_count_that_cannot_be_shown_does_not_hide_the_end_of_the_run(count: int) -> None:
    priced = spec(pricing={"inputPerMTok": "3", "outputPerMTok": "15"})
    ended = terminal_row(totals=TotalsRow(*[count] * 7))
    status = shown(world(row=ended, spec=priced))
    assert status.phase == "Succeeded"
    assert status.usage is not None
    assert 0 <= status.usage.total_tokens <= 10**15


def test_no_cost_without_a_price() -> None:
    usage = shown(world()).usage
    assert usage is not None
    assert usage.cost_usd is None


def test_pending_approvals_at_most_ten_and_all_are_counted() -> None:
    many = tuple(request(n) for n in range(1, 31))
    status = shown(world(row=suspended_row(pending_approvals=many), approvals=(approval(),)))
    assert status.pending_approval_count == 30
    assert len(status.pending_approvals) == 10


def test_start_time_is_the_first_claim_and_stays() -> None:
    claimed = ago(minutes=29)
    status = shown(world())
    assert status.start_time == claimed
    later = row(attempts=(attempt(20, claimed_at=ago(minutes=1)),), attempt=20, fence=20)
    assert shown(world(run=run(status=status), row=later)).start_time == claimed


def test_completion_time_only_at_the_end() -> None:
    assert shown(world()).completion_time is None
    assert shown(world(row=terminal_row())).completion_time == ago(minutes=5)


def test_resumed_from_checkpoint() -> None:
    two = row(attempt=2, fence=2, holder="pod-2", attempts=(attempt(1), attempt(2)))
    status = shown(world(row=two))
    assert (status.resumed_from_checkpoint, status.resume_position) == (True, "AfterTools")
    fresh = shown(world())
    assert (fresh.resumed_from_checkpoint, fresh.resume_position) == (False, None)


def test_a_prompt_is_one_task() -> None:
    status = shown(world(row=row(totals=TotalsRow(turns=3))))
    assert [(t.name, t.agent, t.phase, t.turns) for t in status.tasks] == [
        ("main", "sre", "Running", 3)
    ]
    assert status.task_summary is not None
    assert (status.task_summary.total, status.task_summary.running) == (1, 1)


def graph(count: int) -> dict[str, Any]:
    """A spec with so many tasks."""
    tasks = [
        {"name": f"task-{n:03d}", "title": "t", "agent": "sre", "prompt": "p"} for n in range(count)
    ]
    return {"prompt": None, "tasks": tasks}


def test_h56_three_hundred_tasks_are_a_summary_and_ten() -> None:
    status = shown(world(spec=spec(**graph(300))))
    assert status.task_summary is not None
    assert status.task_summary.total == 300
    assert len(status.tasks) == 10
    assert size(status) <= STATUS_MAX


def test_h56_a_long_life_with_long_words_is_cut_to_what_a_status_may_hold() -> None:
    many = tuple(attempt(n, node="n" * 253, pod="p" * 63) for n in range(1, 11))
    over = terminal_row(attempt=10, fence=10, attempts=many, message="m" * 4096, preview="r" * 4096)
    status = shown(world(row=over, spec=spec(**graph(300))))
    assert size(status) <= STATUS_MAX
    assert status.attempts[-1].attempt == 10
    assert status.result


def test_h56_failed_then_active_then_the_rest() -> None:
    phases = [
        TaskPhase.SUCCEEDED,
        TaskPhase.PENDING,
        TaskPhase.RUNNING,
        TaskPhase.FAILED,
        TaskPhase.SKIPPED,
    ]
    chosen = most_telling(TaskStatus(name=f"t{n}", phase=p) for n, p in enumerate(phases * 3))
    assert [task.phase for task in chosen] == (
        [TaskPhase.FAILED] * 3
        + [TaskPhase.RUNNING] * 3
        + [TaskPhase.PENDING] * 3
        + [TaskPhase.SUCCEEDED]
    )


@given(
    message=st.text(max_size=5000),
    preview=st.text(max_size=5000),
    count=st.integers(0, 10),
    approvals=st.integers(0, 40),
    tasks=st.sampled_from([0, 1, 300]),
    trouble=st.text(max_size=2000),
)
def test_the_size_is_bounded_whatever_the_run(
    message: str, preview: str, count: int, approvals: int, tasks: int, trouble: str
) -> None:
    attempts = tuple(
        attempt(n, cause="RunnerFailed", fault="App", exit_code=137, ended_at=NOW, last_seq=10**9)
        for n in range(91, 91 + count)
    )
    the_row = suspended_row(
        reason="ModelUnavailable",
        message=message,
        preview=preview,
        attempts=attempts,
        attempt=100,
        fence=100,
        totals=TotalsRow(10**9, 10**9, 10**12, 10**12, 10**12, 10**12, 10**18),
        pending_approvals=tuple(request(n) for n in range(1, approvals + 1)),
    )
    what = spec(**graph(tasks)) if tasks else spec()
    at = world(
        row=the_row, spec=what, trouble=Trouble(Reason.QUOTA_EXCEEDED, trouble), run=run(what)
    )
    status = shown(at)
    assert size(status) <= STATUS_MAX
    AgentRunStatus.model_validate(status.to_dict())


class TestNeedsPatch:
    """Patched when a person would notice; progress at most once in ten seconds."""

    OLD = shown(world(row=row(totals=TotalsRow(turns=1))))
    PROGRESS = shown(world(row=row(totals=TotalsRow(turns=2), seq=9), run=run(status=OLD)))
    CHANGE = shown(world(row=row(requested=Requested.SUSPEND), run=run(status=OLD)))

    @pytest.mark.parametrize(
        ("old", "new", "since", "wanted"),
        [
            (None, OLD, None, True),
            (OLD, OLD, None, False),
            (OLD, OLD, 3600.0, False),
            (OLD, PROGRESS, 0.0, False),
            (OLD, PROGRESS, 9.9, False),
            (OLD, PROGRESS, 10.0, True),
            (OLD, PROGRESS, None, True),
            (OLD, CHANGE, 0.0, True),
            (OLD, CHANGE, None, True),
        ],
    )
    def test_a_status_is_written_when_a_person_would_notice(
        self, old: AgentRunStatus | None, new: AgentRunStatus, since: float | None, wanted: bool
    ) -> None:
        assert needs_patch(old, new, since) is wanted

    def test_projecting_twice_changes_nothing(self) -> None:
        for at in (world(), world(row=terminal_row()), world(row=None, pods=())):
            once = shown(at)
            assert shown(replace(at, run=run(status=once))) == once
