"""Contract: Approvals are asked by the operator and decided by people, once."""

from __future__ import annotations

import pytest
from tests.cluster_port.scenes import Scene, approval_for

from agentrun.api import ApprovalState, ApprovalStatus, Decision, Scope
from agentrun.cluster.values import ObjectKey
from agentrun.errors import AlreadyExists, Conflict, Forbidden, NotFound, Rejected


async def test_an_approval_is_created_once(scene: Scene) -> None:
    run = await scene.run()
    made = await scene.cluster.create_approval(approval_for(run))
    assert made.metadata.uid
    assert [a.metadata.name for a in await scene.cluster.list_approvals()] == [made.metadata.name]
    assert await scene.user.get_approval(made.metadata.name) == made
    with pytest.raises(AlreadyExists):
        await scene.cluster.create_approval(approval_for(run))


async def test_an_approval_is_never_created_decided(scene: Scene) -> None:
    """H37"""
    run = await scene.run()
    asked = approval_for(run)
    decided = asked.model_copy(
        update={"spec": asked.spec.model_copy(update={"decision": Decision.APPROVE})}
    )
    with pytest.raises(Forbidden):
        await scene.cluster.create_approval(decided)


async def test_deleting_names_the_very_object(scene: Scene) -> None:
    run = await scene.run()
    made = await scene.cluster.create_approval(approval_for(run))
    key = ObjectKey(scene.namespace, made.metadata.name)
    with pytest.raises(Conflict):
        await scene.cluster.delete_approval(key, "another-uid")
    await scene.cluster.delete_approval(key, made.metadata.uid)
    with pytest.raises(NotFound):
        await scene.cluster.get_approval(key)


async def test_who_decided_is_stamped(scene: Scene) -> None:
    run = await scene.run()
    made = await scene.cluster.create_approval(approval_for(run))
    await scene.user.decide(made.metadata.name, Decision.DENY, reason="not now")
    spec = (await scene.user.get_approval(made.metadata.name)).spec
    assert (spec.decision, spec.decision_reason) == (Decision.DENY, "not now")
    assert spec.decided_by == scene.person


async def test_it_is_decided_once(scene: Scene) -> None:
    """H39"""
    run = await scene.run()
    made = await scene.cluster.create_approval(approval_for(run))
    await scene.user.decide(made.metadata.name, Decision.APPROVE)
    with pytest.raises(Conflict):
        await scene.user.decide(made.metadata.name, Decision.DENY)
    assert (await scene.user.get_approval(made.metadata.name)).spec.decision is Decision.APPROVE


async def test_a_closed_one_takes_no_decision(scene: Scene) -> None:
    """H72"""
    run = await scene.run()
    made = await scene.cluster.create_approval(approval_for(run))
    await scene.cluster.patch_approval_status(made, ApprovalStatus(state=ApprovalState.CLOSED))
    with pytest.raises(Conflict):
        await scene.user.decide(made.metadata.name, Decision.APPROVE)


async def test_closing_over_an_unseen_decision_is_a_conflict(scene: Scene) -> None:
    """H72"""
    run = await scene.run()
    seen = await scene.cluster.create_approval(approval_for(run))
    await scene.user.decide(seen.metadata.name, Decision.DENY)
    with pytest.raises(Conflict):
        await scene.cluster.patch_approval_status(seen, ApprovalStatus(state=ApprovalState.CLOSED))


async def test_the_decision_fits_the_scope(scene: Scene) -> None:
    run = await scene.run()
    question = await scene.cluster.create_approval(approval_for(run, scope=Scope.QUESTION))
    name = question.metadata.name
    with pytest.raises(Rejected):
        await scene.user.decide(name, Decision.APPROVE)
    with pytest.raises(Rejected):
        await scene.user.decide(name, Decision.ANSWER)
    answered = await scene.user.decide(name, Decision.ANSWER, answer="42")
    assert answered.spec.answer == "42"
