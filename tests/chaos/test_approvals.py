"""Approvals end to end: a run that waits for a person has no process, and goes on when it may."""

from __future__ import annotations

import pytest
from tests.chaos.harness import oracle
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.oracle import Trail
from tests.chaos.harness.scene import Scene, scene
from tests.chaos.harness.scenes import GATE, USAGE, gated, note
from tests.chaos.harness.stage import failpoint, fired
from tests.peers.modelscripts import DONE, Script, call, reply, script

from agentrun.api import Approval, ApprovalState, Decision
from agentrun.cluster.local.open import open_local_cluster
from agentrun.cluster.values import ObjectKey
from agentrun.errors import AgentRunError
from agentrun.run.records import ApprovalDecision, ApprovalRequest, ToolResult
from agentrun.runner import failpoints


def two_gated() -> Script:
    """Two calls in one round that a person has to approve."""
    tools = [call("charge", amount=1), call("charge", amount=2)]
    return script(
        reply(0, text="Both?", tools=tools, usage=USAGE), reply(1, text=DONE, usage=USAGE)
    )


def slow_gated() -> Script:
    """One gated call that takes its time."""
    tools = [call("slow", seconds=0.6, text="done")]
    return script(
        reply(0, text="Slowly?", tools=tools, usage=USAGE),
        reply(1, text="Noted.", tools=[note("done\n")], usage=USAGE),
        reply(2, text=DONE, usage=USAGE),
    )


async def asked(playing: Scene) -> Approval:
    """The run's one question, once the run is suspended for it and nothing of it runs."""
    await playing.phase("Suspended", "ApprovalPending")
    approval = await playing.stage.approval(playing.name)

    async def still() -> bool:
        return not any(pod.runner_running for pod in await playing.stage.pods())

    await playing.stage.until(still, "no runner is left", playing.name)
    return approval


async def decide(playing: Scene, approval: Approval, decision: Decision, **more: str) -> None:
    """As ``agentrun approve`` and ``agentrun deny`` do."""
    await playing.stage.user.decide(approval.metadata.name, decision, **more)


def charged(found: Trail) -> list[int]:
    """Amounts that the tool server was asked for."""
    return sorted(line["args"]["amount"] for line in found.called if line["tool"] == "charge")


def check(found: Trail, attempts: int = 2) -> None:
    """The run succeeded, charged nobody twice, and waiting cost it no retry."""
    assert found.row.state == "Succeeded"
    assert (found.row.attempt, found.row.fence) == (attempts, attempts)
    assert (found.row.app_faults, found.row.infra_faults) == (0, 0)
    assert len(found.of(ApprovalRequest)) == len(found.of(ApprovalDecision))
    oracle.check_record(found)
    oracle.check_effects(found)


@overlapping
async def test_an_approved_call_runs_once_after_the_pod_was_gone(shared: Grounds) -> None:
    async with scene(shared, gated(), toolPolicies=[GATE]) as playing:
        approval = await asked(playing)
        before = await playing.trail()
        await decide(playing, approval, Decision.APPROVE)
        found = await playing.ended()
        after = await playing.stage.user.get_approval(approval.metadata.name)

    assert approval.spec.content.tool == "ops.charge"
    assert approval.spec.content.arguments_json == '{"amount":100}'
    assert charged(before) == []
    assert charged(found) == [100]
    assert [line["meta"]["attempt"] for line in found.called if line["tool"] == "echo"] == [1]
    assert after.status is not None
    assert (after.status.state, after.status.consumed_by_attempt) == (ApprovalState.APPROVED, 2)
    check(found)


@overlapping
async def test_the_model_hears_of_a_denial(shared: Grounds) -> None:
    async with scene(shared, gated(), toolPolicies=[GATE]) as playing:
        approval = await asked(playing)
        await decide(playing, approval, Decision.DENY, reason="too much")
        found = await playing.ended()

    assert charged(found) == []
    denied = [one.record for one in found.of(ToolResult) if one.record.origin == "denied"]
    assert [result.is_error for result in denied] == [True]
    assert "too much" in oracle.messages(found.state).decode()
    check(found)


@pytest.mark.parametrize("reverse", [False, True])
@overlapping
async def test_each_of_two_answers_reaches_its_own_call(shared: Grounds, reverse: bool) -> None:
    async with scene(shared, two_gated(), toolPolicies=[GATE]) as playing:
        one = await asked(playing)
        other = await playing.stage.approval(playing.name, besides=(one.metadata.name,))
        first, second = sorted((one, other), key=lambda item: item.spec.boundary)
        answers = [(first, Decision.APPROVE), (second, Decision.DENY)]
        for approval, decision in reversed(answers) if reverse else answers:
            await decide(playing, approval, decision)
        found = await playing.ended()

    assert (first.spec.boundary, second.spec.boundary) == ("main/1/1/0", "main/1/1/1")
    assert charged(found) == [1]
    results = {one.record.call: one.record.origin for one in found.of(ToolResult)}
    assert results == {"main/1/1/0": "server", "main/1/1/1": "denied"}
    check(found)


@overlapping
async def test_a_decision_is_taken_up_by_the_operator_that_starts_later(shared: Grounds) -> None:
    async with scene(shared, gated(), toolPolicies=[GATE]) as playing:
        approval = await asked(playing)
        await playing.stage.stop_operators()
        await decide(playing, approval, Decision.APPROVE)
        seen = await playing.row()
        await playing.stage.start_operator()
        found = await playing.ended()

    assert (seen.state, seen.attempt) == ("Suspended", 1)
    assert charged(found) == [100]
    check(found)


@overlapping
async def test_approved_while_its_user_suspended_it_a_run_stays_suspended(shared: Grounds) -> None:
    """H26: the decision is recorded, and starts nothing."""
    async with scene(shared, gated(), toolPolicies=[GATE]) as playing:
        approval = await asked(playing)
        await playing.change(suspend=True)
        await playing.phase("Suspended", "SuspendedByUser")
        await decide(playing, approval, Decision.APPROVE)
        row = await playing.stage.row_where(
            playing.name, lambda row: not row.pending_approvals, "the decision is recorded"
        )
        await playing.phase("Suspended", "SuspendedByUser")
        still = await playing.row()
        await playing.change(suspend=False)
        found = await playing.ended()

    assert (row.state, row.attempt) == (still.state, still.attempt) == ("Suspended", 1)
    assert charged(found) == [100]
    check(found)


@overlapping
async def test_killed_right_after_an_approval_the_call_runs_and_nobody_is_asked_again(
    shared: Grounds,
) -> None:
    folder = shared.folder("spent")
    gate = {**GATE, "tools": ["ops.slow"]}
    environ = failpoint(folder, failpoints.IN_TOOL)
    async with scene(
        shared, slow_gated(), folder=folder, environ=environ, toolPolicies=[gate]
    ) as playing:
        await decide(playing, await asked(playing), Decision.APPROVE)
        found = await playing.ended()

    assert fired(folder) == {failpoints.IN_TOOL}
    assert found.row.state == "Succeeded"
    assert (found.row.attempt, found.row.app_faults) == (3, 1)
    assert len(found.of(ApprovalRequest)) == len(found.of(ApprovalDecision)) == 1
    assert [line["meta"]["attempt"] for line in found.called] == [2, 3]
    oracle.check_record(found)
    oracle.check_effects(found)


@overlapping
async def test_deleting_a_question_does_not_approve_it(shared: Grounds) -> None:
    async with scene(shared, gated(), toolPolicies=[GATE]) as playing:
        approval = await asked(playing)
        name = approval.metadata.name
        cluster = open_local_cluster(playing.stage.folder, ambient={})
        await cluster.delete_approval(ObjectKey("default", name), approval.metadata.uid)
        await cluster.close()

        async def again() -> Approval | None:
            found = [
                a for a in await playing.stage.user.list_approvals() if a.metadata.name == name
            ]
            return found[0] if found and found[0].metadata.uid != approval.metadata.uid else None

        anew = await playing.stage.until(again, "it is asked again", playing.name)
        row = await playing.stage.row_where(
            playing.name,
            lambda row: row.pending_approvals[0].object_uid == anew.metadata.uid,
            "the new object counts",
        )
        await decide(playing, anew, Decision.APPROVE)
        found = await playing.ended()

    assert row.attempt == 1
    assert charged(found) == [100]
    check(found)


@overlapping
async def test_after_a_cancel_nothing_can_be_approved(shared: Grounds) -> None:
    async with scene(shared, gated(), toolPolicies=[GATE]) as playing:
        approval = await asked(playing)
        await playing.change(cancel=True)
        found = await playing.ended()

        async def closed() -> Approval | None:
            now = await playing.stage.user.get_approval(approval.metadata.name)
            return now if now.status and now.status.state == ApprovalState.CLOSED else None

        await playing.stage.until(closed, "the question is closed", playing.name)
        with pytest.raises(AgentRunError):
            await decide(playing, approval, Decision.APPROVE)

    assert (found.row.state, found.row.attempt) == ("Cancelled", 1)
    assert charged(found) == []
    assert not found.of(ApprovalDecision)
