"""Over arbitrary worlds: ``plan`` never raises, is a function, and never does what it must not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.controller.worlds import (
    INSTALLATION,
    KEY,
    NOW,
    OTHER_UID,
    UID,
    approval,
    attempt,
    pod,
    request,
    row,
    run,
    spec,
)

from agentrun.api import (
    AgentRunStatus,
    Approval,
    ApprovalState,
    Decision,
    Reason,
)
from agentrun.api.status_size import STATUS_MAX, size
from agentrun.cluster.values import ContainerEnd, PodView
from agentrun.controller.actions import (
    Charge,
    ConfirmPod,
    CreateApproval,
    CreatePod,
    Decide,
    DeletePod,
    Finish,
    Mint,
    OpenRun,
    Revoke,
    SetRequested,
    Suspend,
)
from agentrun.controller.plan.plan import plan
from agentrun.controller.settings import Settings
from agentrun.controller.world import Confirmed, Freshness, Gap, Trouble, World
from agentrun.store.rows import (
    ApprovalRow,
    AttemptRow,
    Budgets,
    Requested,
    RunRow,
    RunState,
    TotalsRow,
)

CHANGING = (OpenRun, SetRequested, Mint, Charge, Finish, Suspend, Revoke, Decide)
CREATING = (OpenRun, Mint, CreatePod, CreateApproval)

seconds = st.integers(-10_000_000, 10_000_000)
moments = seconds.map(lambda s: NOW + timedelta(seconds=s))
maybe = st.none() | moments
counts = st.integers(0, 30)
words = st.sampled_from(
    (
        "",
        "RunnerFailed",
        "LeaseExpired",
        "Suspended",
        "CheckpointNewer",
        "ApprovalPending",
        "SuspendedByUser",
        "BudgetExceeded",
        "ModelUnavailable",
        "NotSettled",
        "so what",
    )
)
durations = st.floats(0, 10_000)


@st.composite
def pods(draw: Any) -> PodView:
    """Any pod, ours or not, in any condition."""
    number = draw(st.integers(1, 4))
    return pod(
        number,
        uid=draw(st.sampled_from(["pod-1", "pod-2", "other"])),
        owner_uid=draw(st.sampled_from([UID, OTHER_UID, None])),
        fence=draw(st.none() | st.integers(0, 6)),
        installation=draw(st.sampled_from([INSTALLATION, "other", None])),
        phase=draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"])),
        node=draw(st.none() | st.just("n1")),
        deleting=draw(st.booleans()),
        runner_running=draw(st.booleans()),
        runner_end=draw(st.none() | ends()),
        waiting=draw(
            st.none()
            | st.tuples(
                st.sampled_from(["ErrImagePull", "SchedulingGated", "Unschedulable", "Else"]),
                st.text(max_size=20),
            )
        ),
        evicted=draw(st.booleans()),
        disrupted=draw(st.booleans()),
        killed_by_user=draw(st.booleans()),
    )


@st.composite
def ends(draw: Any) -> ContainerEnd:
    """Any end, with any last words."""
    return ContainerEnd(
        draw(st.sampled_from([0, 1, 75, 78, 79, 137, 143, 255])),
        draw(st.sampled_from(["OOMKilled", "Error", "Completed", ""])),
        None,
        draw(st.text(max_size=30) | st.just('{"reason": "CheckpointNewer", "message": "x"}')),
    )


@st.composite
def attempts(draw: Any, number: int) -> AttemptRow:
    """Any attempt."""
    return attempt(
        number,
        fence=draw(st.integers(1, 6)),
        node=draw(st.none() | st.just("n1")),
        pod_uid=draw(st.none() | st.just("pod-1")),
        started_at=draw(moments),
        claimed_at=draw(maybe),
        ended_at=draw(maybe),
        cause=draw(st.none() | words),
        fault=draw(st.sampled_from([None, "None", "App", "Infra"])),
        exit_code=draw(st.none() | st.integers(-64, 300)),
        last_seq=draw(st.none() | counts),
        continued_from_attempt=draw(st.none() | st.integers(1, 4)),
    )


@st.composite
def rows(draw: Any) -> RunRow:
    """Any row, consistent or not."""
    number = draw(st.integers(0, 4))
    budget = st.none() | st.integers(1, 20)
    return row(
        object_uid=draw(st.sampled_from([UID, UID, UID, OTHER_UID])),
        installation=draw(st.sampled_from([INSTALLATION, INSTALLATION, "other"])),
        generation=draw(st.integers(0, 4)),
        state=draw(st.sampled_from(list(RunState))),
        reason=draw(words),
        message=draw(st.text(max_size=40)),
        attempt=number,
        fence=draw(st.integers(0, 6)),
        holder=draw(st.sampled_from([None, "pod-1", "pod-2"])),
        lease_ttl_ms=draw(st.sampled_from([3_000, 60_000, 3_600_000])),
        lease_expires_at=draw(maybe),
        seq=draw(counts),
        requested=draw(st.sampled_from(list(Requested))),
        requested_reason=draw(st.sampled_from(["", "User", "Deadline", "Budget", "odd"])),
        budgets=Budgets(draw(budget), draw(budget), draw(budget), draw(budget)),
        app_faults=draw(counts),
        infra_faults=draw(counts),
        faults_at_progress=draw(st.integers(0, 5)),
        backoff_step=draw(st.integers(0, 100)),
        retry_at=draw(maybe),
        totals=TotalsRow(*draw(st.tuples(*[st.integers(0, 50)] * 7))),
        active_ms=draw(st.integers(0, 10**9)),
        active_since=draw(maybe),
        created_at=draw(moments),
        first_commit_at=draw(maybe),
        last_commit_at=draw(maybe),
        suspended_at=draw(maybe),
        finished_at=draw(maybe),
        attempts=tuple(draw(attempts(n)) for n in range(1, number + 1)),
        pending_approvals=draw(
            st.lists(requests(), max_size=3, unique_by=lambda r: r.id).map(tuple)
        ),
    )


@st.composite
def requests(draw: Any) -> ApprovalRow:
    """Any open question."""
    return request(
        draw(st.integers(1, 3)),
        object_uid=draw(st.sampled_from([None, "approval-1", "approval-2"])),
        requested_at=draw(moments),
    )


@st.composite
def objects(draw: Any) -> Approval:
    """Any Approval object."""
    decision = draw(st.sampled_from([None, *Decision]))
    return approval(
        request(draw(st.integers(1, 3))),
        uid=draw(st.sampled_from(["approval-1", "approval-2", "forged"])),
        state=draw(st.sampled_from(list(ApprovalState))),
        decision=decision,
        decided_by="alice" if decision else "",
        reason=draw(st.sampled_from(["restarts production", "else"])),
        boundary=draw(st.sampled_from(["main/1/3/1", "else"])),
    )


@st.composite
def specs(draw: Any) -> Any:
    """Specs that differ in what the planner reads."""
    small = st.none() | st.integers(1, 5_000)
    limits = {
        "retries": draw(st.integers(0, 8)),
        "infraRetries": draw(st.integers(0, 8)),
        "startDeadlineSeconds": draw(st.integers(1, 5_000)),
        "activeDeadlineSeconds": draw(small),
        "deadlineSeconds": draw(small),
        "turns": draw(st.none() | st.integers(1, 20)),
        "onExceeded": draw(st.sampled_from(["Suspend", "Fail"])),
    }
    return spec(
        suspend=draw(st.booleans()),
        cancel=draw(st.booleans()),
        limits={key: value for key, value in limits.items() if value is not None},
        lease={"onUnreachable": draw(st.sampled_from(["TakeOver", "WaitForPod"]))},
        approvals={
            "onTimeout": draw(st.sampled_from(["Deny", "Fail", "Approve"])),
            **({"expiresAfterSeconds": 60} if draw(st.booleans()) else {}),
        },
        ttlSecondsAfterFinished=draw(st.none() | st.integers(0, 100)),
        controllerName=draw(st.sampled_from(["", "", "", "other"])),
    )


@st.composite
def worlds(draw: Any) -> World:
    """Any world."""
    what = draw(specs())
    has_run = draw(st.sampled_from([True, True, True, False]))
    old = draw(st.none() | st.builds(AgentRunStatus, attempt=counts, fence=counts))
    the_row = draw(st.none() | rows())
    gaps = st.lists(st.builds(Gap, durations, durations), max_size=3).map(tuple)
    freshness = st.builds(
        Freshness, st.sampled_from([True, True, False]), durations, st.none() | durations, gaps
    )
    store_up = draw(st.sampled_from([True, True, True, False]))
    return World(
        key=KEY,
        settings=Settings(installation=INSTALLATION),
        freshness=draw(freshness),
        now=NOW,
        run=run(what, generation=draw(st.integers(0, 4)), deleting=draw(st.booleans()), status=old)
        if has_run
        else None,
        gone_uid="" if has_run else UID,
        namespace_terminating=draw(st.booleans()) and draw(st.booleans()),
        row=the_row if store_up else None,
        store_up=store_up,
        spec=what if the_row is not None and store_up else None,
        unreadable=draw(
            st.sampled_from([None, None, Reason.CHECKPOINT_NEWER, Reason.CHECKPOINT_CORRUPT])
        ),
        problems=draw(st.sampled_from([(), (), ("bad",)])),
        pods=draw(st.lists(pods(), max_size=3, unique_by=lambda p: p.key).map(tuple)),
        approvals=draw(st.lists(objects(), max_size=3, unique_by=_name).map(tuple)),
        confirmed=draw(
            st.none() | pods().map(lambda p: Confirmed(p.key.name, p)) | st.just(_NOTHING)
        ),
        trouble=draw(
            st.none()
            | st.builds(Trouble, st.just(Reason.QUOTA_EXCEEDED), st.text(max_size=9), durations)
        ),
        requested_age=draw(durations),
        stray_secrets=draw(st.booleans()),
        identity_verified=draw(st.booleans()),
    )


_NOTHING = Confirmed(pod().key.name, None)


def _name(made: Approval) -> str:
    return made.metadata.name


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_whatever_the_world(at: World) -> None:
    made = plan(at)
    # A function of the world.
    assert plan(at) == made
    changing = [act for act in made.actions if isinstance(act, CHANGING)]
    assert len(changing) <= 1
    # Never two mints, and no pod without one reason for it.
    assert sum(isinstance(act, Mint) for act in made.actions) <= 1
    assert sum(isinstance(act, CreatePod) for act in made.actions) <= 1
    _creates_nothing_for_what_goes(at, made.actions)
    _leaves_terminal_rows_alone(at, changing)
    _touches_only_ours(at, made.actions)
    if made.requeue_after is not None:
        assert made.requeue_after > 0
    if made.status is not None:
        assert size(made.status) <= STATUS_MAX
        AgentRunStatus.model_validate(made.status.to_dict())


def _creates_nothing_for_what_goes(at: World, actions: tuple[Any, ...]) -> None:
    """H24, H14, H20, H21."""
    blind = not at.freshness.synced or not at.store_up
    foreign = (at.run is not None and at.run.spec.controller_name != "") or (
        at.row is not None and at.row.installation != INSTALLATION
    )
    if blind or foreign:
        assert not actions
    if at.live_run is None:
        assert not any(isinstance(act, CREATING) for act in actions)
    for act in actions:
        if isinstance(act, Mint):
            assert at.row is not None
            assert at.row.state in (RunState.PENDING, RunState.ACTIVE, RunState.SUSPENDED)
            assert at.row.requested is Requested.RUN


def _leaves_terminal_rows_alone(at: World, changing: list[Any]) -> None:
    """What is over stays over."""
    if at.row is not None and (at.row.state.terminal or at.row.object_uid != UID):
        assert not changing
    if at.row is not None and at.row.state is not RunState.ACTIVE:
        assert not any(isinstance(act, Charge | Suspend | ConfirmPod) for act in changing)


def _touches_only_ours(at: World, actions: tuple[Any, ...]) -> None:
    """H22: only what is provably ours is deleted, and never the pod that owns the run."""
    confirmed = (at.confirmed.pod,) if at.confirmed and at.confirmed.pod else ()
    named = {attempt.pod_uid for attempt in at.row.attempts} if at.row is not None else set()
    seen = [
        p
        for p in (*at.pods, *confirmed)
        if p.installation == INSTALLATION
        and (p.owner_uid == UID or (p.owner_uid is None and p.uid in named))
    ]
    for act in actions:
        if not isinstance(act, DeletePod):
            continue
        found = next(p for p in seen if (p.key, p.uid) == (act.key, act.uid))
        owning = (
            at.row is not None
            and at.live_run is not None
            and at.row.state is RunState.ACTIVE
            and found.fence == at.row.fence
            and found.uid == at.row.holder
        )
        if owning:
            from agentrun.controller.plan.facts import charged

            assert at.row is not None
            assert charged(at.row)
