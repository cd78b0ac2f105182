"""Worlds to start from: a healthy run, and the ways in which a test makes it different."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agentrun.api import (
    AgentRun,
    AgentRunSpec,
    AgentRunStatus,
    Approval,
    ApprovalState,
    ApprovalStatus,
    ObjectMeta,
)
from agentrun.api.names import pod_name
from agentrun.cluster.values import ContainerEnd, ObjectKey, PodView
from agentrun.controller.actions import Action
from agentrun.controller.approval_object import approval_object
from agentrun.controller.plan.plan import plan
from agentrun.controller.settings import Settings
from agentrun.controller.world import Confirmed, Freshness, World
from agentrun.run.approvals import content_hash
from agentrun.run.exact import canonical_json
from agentrun.store.rows import (
    ApprovalRow,
    AttemptRow,
    Budgets,
    Requested,
    RunRow,
    RunState,
    TotalsRow,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
UID = "1a2b3c4d-0000-4000-8000-000000000001"
OTHER_UID = "9f9f9f9f-0000-4000-8000-000000000002"
NAME, NAMESPACE = "incident-42", "agents"
KEY = ObjectKey(NAMESPACE, NAME)
INSTALLATION = "here"
SETTINGS = Settings(installation=INSTALLATION, image="runner:1")
PRICES = {"inputPerMTok": "3", "outputPerMTok": "15"}
OLD_ENOUGH = Freshness(synced=True, since_start=86_400.0, since_poll=0.5)


def ago(**spans: float) -> datetime:
    """A moment before now, by the database's clock."""
    return NOW - timedelta(**spans)


def ahead(**spans: float) -> datetime:
    """A moment after now."""
    return NOW + timedelta(**spans)


def spec(**more: Any) -> AgentRunSpec:
    """The smallest spec that runs, with changes in the wire's spelling."""
    return AgentRunSpec.model_validate(
        {
            "prompt": "Find out why checkout is slow.",
            "agents": [{"name": "sre"}],
            "model": {"name": "claude-sonnet-4-6"},
            **more,
        }
    )


def run(
    what: AgentRunSpec | None = None,
    *,
    uid: str = UID,
    generation: int = 1,
    deleting: bool = False,
    status: AgentRunStatus | None = None,
) -> AgentRun:
    """The object."""
    return AgentRun(
        metadata=ObjectMeta(
            name=NAME,
            namespace=NAMESPACE,
            uid=uid,
            generation=generation,
            resource_version="100",
            creation_timestamp=ago(hours=1),
            deletion_timestamp=NOW if deleting else None,
        ),
        spec=what or spec(),
        status=status,
    )


def attempt(number: int = 1, **more: Any) -> AttemptRow:
    """An attempt that claimed; its fence is its number unless said otherwise."""
    base = AttemptRow(
        attempt=number,
        fence=number,
        pod=pod_name(NAME, UID, number),
        pod_uid=f"pod-{number}",
        node="n1",
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        continued_from_attempt=number - 1 or None,
        continued_from_seq=5 if number > 1 else None,
        started_at=ago(minutes=30),
        claimed_at=ago(minutes=29),
        ended_at=None,
        cause=None,
        fault=None,
        exit_code=None,
        last_seq=None,
    )
    return replace(base, **more)


def row(**more: Any) -> RunRow:
    """An Active run whose first attempt has claimed, committed and renews."""
    base = RunRow(
        run_uid=UID,
        object_uid=UID,
        installation=INSTALLATION,
        namespace=NAMESPACE,
        name=NAME,
        run_id=UID,
        spec=b"{}",
        spec_hash="0" * 64,
        generation=1,
        state=RunState.ACTIVE,
        reason="",
        message="",
        attempt=1,
        fence=1,
        holder="pod-1",
        lease_ttl_ms=60_000,
        lease_expires_at=ahead(seconds=50),
        seq=5,
        snapshot_seq=0,
        requested=Requested.RUN,
        requested_reason="",
        requested_by="",
        budgets=Budgets(),
        app_faults=0,
        infra_faults=0,
        faults_at_progress=0,
        backoff_step=0,
        retry_at=None,
        progress_seq=4,
        trace_id=f"{1:032x}",
        span_id=f"{1:016x}",
        totals=TotalsRow(),
        active_ms=0,
        active_since=ago(minutes=29),
        preview="",
        created_at=ago(hours=1),
        first_commit_at=ago(minutes=28),
        last_commit_at=ago(seconds=5),
        suspended_at=None,
        finished_at=None,
        db_now=NOW,
        attempts=(attempt(1),),
    )
    return replace(base, **more)


def expired_row(**more: Any) -> RunRow:
    """The lease of a claimed fence has run out."""
    return row(lease_expires_at=ago(seconds=1), **more)


def unclaimed_row(**more: Any) -> RunRow:
    """Minted, not yet claimed, nothing committed."""
    base = row(
        holder=None,
        lease_expires_at=None,
        active_since=None,
        first_commit_at=None,
        last_commit_at=None,
        seq=1,
        attempts=(attempt(1, pod_uid=None, claimed_at=None, started_at=ago(seconds=30)),),
    )
    return replace(base, **more)


def pending_row(**more: Any) -> RunRow:
    """Opened, never minted."""
    return unclaimed_row(
        state=RunState.PENDING,
        attempt=0,
        fence=0,
        seq=0,
        attempts=(),
        trace_id="",
        span_id="",
        **more,
    )


def suspended_row(**more: Any) -> RunRow:
    """The pod's last commit set Suspended."""
    base = row(
        state=RunState.SUSPENDED,
        reason="ApprovalPending",
        suspended_at=ago(minutes=5),
        active_since=None,
        attempts=(attempt(1, ended_at=ago(minutes=5), cause="Suspended", fault="None"),),
    )
    return replace(base, **more)


def terminal_row(state: RunState = RunState.SUCCEEDED, **more: Any) -> RunRow:
    """Over."""
    base = row(
        state=state,
        reason=state.value,
        finished_at=ago(minutes=5),
        active_since=None,
        attempts=(attempt(1, ended_at=ago(minutes=5), cause=state.value, fault="None"),),
    )
    return replace(base, **more)


def charged_row(**more: Any) -> RunRow:
    """The attempt's end was charged; its back-off runs for another minute."""
    base = row(
        active_since=None,
        app_faults=1,
        faults_at_progress=1,
        backoff_step=1,
        retry_at=ahead(seconds=60),
        attempts=(
            attempt(1, ended_at=ago(seconds=5), cause="RunnerFailed", fault="App", exit_code=1),
        ),
    )
    return replace(base, **more)


def pod(number: int = 1, **more: Any) -> PodView:
    """The running pod of an attempt."""
    base = PodView(
        key=ObjectKey(NAMESPACE, pod_name(NAME, UID, number)),
        uid=f"pod-{number}",
        owner_uid=UID,
        run_uid=UID,
        fence=number,
        attempt=number,
        installation=INSTALLATION,
        phase="Running",
        node="n1",
        created_at=ago(minutes=30),
        deleting=False,
        runner_running=True,
        runner_end=None,
        waiting=None,
        evicted=False,
        disrupted=False,
    )
    return replace(base, **more)


def ended_pod(exit_code: int, reason: str = "Error", number: int = 1, **more: Any) -> PodView:
    """A pod whose runner container has ended."""
    return pod(
        number,
        **{
            "phase": "Failed" if exit_code else "Succeeded",
            "runner_running": False,
            "runner_end": ContainerEnd(exit_code, reason),
            **more,
        },
    )


def waiting_pod(reason: str, message: str = "", **more: Any) -> PodView:
    """A pod that cannot start."""
    return pod(
        **{
            "phase": "Pending",
            "runner_running": False,
            "waiting": (reason, message),
            **more,
        }
    )


def request(number: int = 1, **more: Any) -> ApprovalRow:
    """A question about a tool call."""
    content = {
        "tool": "ops.restart",
        "argumentsJSON": '{"service":"checkout"}',
        "agent": "sre",
        "task": "main",
        "callId": f"toolu_{number:02d}",
    }
    boundary = f"main/1/3/{number}"
    base = ApprovalRow(
        id=f"apr-{number:032x}",
        run_uid=UID,
        scope="Tool",
        boundary=boundary,
        ordinal=1,
        content=canonical_json(content),
        content_hash=content_hash("Tool", boundary, content),
        reason="restarts production",
        state="Pending",
        object_uid=f"approval-{number}",
        requested_at=ago(minutes=5),
        decided_by=None,
        decided_at=None,
        consumed_attempt=None,
    )
    return replace(base, **more)


def approval(
    asked: ApprovalRow | None = None,
    *,
    uid: str | None = None,
    state: ApprovalState = ApprovalState.PENDING,
    run_spec: AgentRunSpec | None = None,
    **changes: Any,
) -> Approval:
    """The object of a question; ``changes`` are fields of its spec (a decision, say)."""
    asked = asked or request()
    made = approval_object(run(), run_spec or spec(), asked)
    meta = made.metadata.model_copy(
        update={"uid": uid or asked.object_uid or "unknown", "resource_version": "7"}
    )
    return made.model_copy(
        update={
            "metadata": meta,
            "spec": made.spec.model_copy(update=changes),
            "status": ApprovalStatus(state=state),
        }
    )


def world(**more: Any) -> World:
    """A healthy run: claimed, renewing, its pod running, nothing to do."""
    what = more.pop("spec", None) or spec()
    opened = more.get("row", True) is not None
    return World(
        **{
            "key": KEY,
            "settings": SETTINGS,
            "freshness": OLD_ENOUGH,
            "now": NOW,
            "run": run(what),
            "row": row(),
            "spec": what if opened else None,
            "pods": (pod(),),
            **more,
        }
    )


def confirmed(seen: PodView | None, number: int = 1) -> Confirmed:
    """The answer of a live GET."""
    return Confirmed(pod_name(NAME, UID, number), seen)


def acts(at: World) -> tuple[Action, ...]:
    """The actions of the plan."""
    return plan(at).actions


def kinds(at: World) -> tuple[str, ...]:
    """The names of the planned actions, Events aside."""
    return tuple(type(act).__name__ for act in acts(at) if type(act).__name__ != "Emit")


def first(at: World) -> Action:
    """The first action; fails when there is none."""
    found = acts(at)
    assert found, "nothing was planned"
    return found[0]
