"""Contract: AgentRuns, ConfigMaps, Secrets and Events, the same behind both adapters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cluster_port.scenes import (
    Scene,
    approval_for,
    config,
    key_of,
    manifest,
    secret_for,
    until,
    user_secret,
)

from agentrun.api import AgentRunStatus, Phase
from agentrun.cluster.values import ClusterEvent, ObjectKey
from agentrun.errors import AlreadyExists, Conflict, NotFound, Rejected


async def test_a_run_is_created_with_identity_and_versions(scene: Scene) -> None:
    applied = await scene.user.apply(manifest("one"))
    run = await scene.cluster.get_run(applied.key)
    assert applied.outcome == "created"
    assert applied.key == ObjectKey(scene.namespace, "one")
    assert run.metadata.uid
    assert run.metadata.resource_version
    assert run.metadata.generation == 1
    assert run.metadata.creation_timestamp is not None
    assert [other.metadata.name for other in await scene.cluster.list_runs()] == ["one"]
    assert [other.metadata.name for other in await scene.user.list_runs()] == ["one"]


async def test_generated_names_are_different(scene: Scene) -> None:
    unnamed = manifest("x")
    unnamed["metadata"] = {"generateName": "many-"}
    names = {(await scene.user.apply(unnamed)).key.name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("many-") for name in names)


async def test_applying_the_same_again_changes_nothing(scene: Scene) -> None:
    before = await scene.run()
    applied = await scene.user.apply(manifest("one"))
    after = await scene.user.get_run("one")
    assert applied.outcome == "unchanged"
    assert after.metadata.resource_version == before.metadata.resource_version


async def test_what_may_change_changes_and_counts_as_a_generation(scene: Scene) -> None:
    await scene.run()
    run = await scene.user.change_run("one", {"suspend": True, "limits": {"turns": 7}})
    assert run.spec.suspend
    assert run.spec.limits.turns == 7
    assert run.metadata.generation == 2
    again = await scene.user.change_run("one", {"suspend": True})
    assert again.metadata.generation == 2
    raised = await scene.user.change_run("one", {"limits": {"turns": None}})
    assert raised.spec.limits.turns is None


async def test_everything_else_is_immutable(scene: Scene) -> None:
    await scene.run()
    with pytest.raises(Rejected):
        await scene.user.change_run("one", {"prompt": "another"})
    with pytest.raises(Rejected):
        await scene.user.apply(manifest("one", prompt="another"))
    assert (await scene.user.get_run("one")).spec.prompt == "say hello"


async def test_a_cancellation_is_not_taken_back(scene: Scene) -> None:
    await scene.run()
    await scene.user.change_run("one", {"cancel": True})
    with pytest.raises(Rejected):
        await scene.user.change_run("one", {"cancel": False})


async def test_a_misspelt_field_is_refused_by_name(scene: Scene) -> None:
    with pytest.raises(Rejected, match="promt"):
        await scene.user.apply(manifest("one", promt="x"))


async def test_a_refusal_does_not_repeat_values(scene: Scene) -> None:
    with pytest.raises(Rejected) as caught:
        await scene.user.apply(manifest("one", toolServers=[{"name": "SECRET VALUE", "url": "u"}]))
    assert "SECRET VALUE" not in str(caught.value)


async def test_status_is_replaced_as_a_whole_and_is_no_generation(scene: Scene) -> None:
    run = await scene.run()
    first = AgentRunStatus(phase=Phase.RUNNING, reason="Starting", attempt=1, message="one")
    run = await scene.cluster.patch_run_status(run, first)
    assert run.status is not None
    assert run.status.message == "one"
    second = AgentRunStatus(phase=Phase.RUNNING, attempt=2)
    run = await scene.cluster.patch_run_status(run, second)
    read = await scene.cluster.get_run(key_of(run))
    assert read.status is not None
    assert (read.status.attempt, read.status.message) == (2, "")
    assert read.metadata.generation == 1
    assert read.spec.prompt == "say hello"


async def test_a_stale_status_is_a_conflict(scene: Scene) -> None:
    seen = await scene.run()
    await scene.user.change_run("one", {"suspend": True})
    with pytest.raises(Conflict):
        await scene.cluster.patch_run_status(seen, AgentRunStatus(phase=Phase.RUNNING))


async def test_status_of_a_recreated_run_is_not_written(scene: Scene) -> None:
    seen = await scene.run()
    await scene.user.remove_run("one")
    await scene.run()
    with pytest.raises(Conflict):
        await scene.cluster.patch_run_status(seen, AgentRunStatus(phase=Phase.RUNNING))


async def test_what_is_not_there_is_not_found(scene: Scene) -> None:
    nowhere = ObjectKey(scene.namespace, "nothing")
    for read in (scene.cluster.get_run, scene.cluster.get_pod, scene.cluster.get_approval):
        with pytest.raises(NotFound):
            await read(nowhere)
    with pytest.raises(NotFound):
        await scene.user.remove_run("nothing")
    with pytest.raises(NotFound):
        await scene.cluster.delete_approval(nowhere, "some-uid")
    with pytest.raises(NotFound):
        await scene.cluster.delete_pod(nowhere, "some-uid")


async def test_deleting_names_the_very_object(scene: Scene) -> None:
    seen = await scene.run()
    await scene.cluster.delete_run(seen)
    recreated = await scene.run()
    assert recreated.metadata.uid != seen.metadata.uid
    with pytest.raises(Conflict):
        await scene.cluster.delete_run(seen)
    assert (await scene.user.get_run("one")).metadata.uid == recreated.metadata.uid


async def test_config_is_read_by_entry(scene: Scene) -> None:
    await scene.user.apply(config("texts", prompt="hello\nworld", empty=""))
    key = ObjectKey(scene.namespace, "texts")
    assert await scene.cluster.get_config(key, "prompt") == "hello\nworld"
    assert await scene.cluster.get_config(key, "empty") == ""
    with pytest.raises(NotFound, match="other"):
        await scene.cluster.get_config(key, "other")
    with pytest.raises(NotFound, match="nothing"):
        await scene.cluster.get_config(ObjectKey(scene.namespace, "nothing"), "prompt")


async def test_config_changes_in_place(scene: Scene) -> None:
    assert (await scene.user.apply(config("texts", a="1"))).outcome == "created"
    assert (await scene.user.apply(config("texts", a="1"))).outcome == "unchanged"
    assert (await scene.user.apply(config("texts", a="2"))).outcome == "configured"
    assert await scene.cluster.get_config(ObjectKey(scene.namespace, "texts"), "a") == "2"


async def test_other_kinds_are_refused(scene: Scene) -> None:
    with pytest.raises(Rejected, match="Deployment"):
        await scene.user.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}})


async def test_attempt_secrets_are_deleted_but_for_those_kept(scene: Scene) -> None:
    one, two = await scene.run("one"), await scene.run("two")
    for run, name in ((one, "one-a"), (one, "one-b"), (one, "one-c"), (two, "two-a")):
        view = await scene.cluster.create_secret(secret_for(run, name))
        assert view.owner_uid == run.metadata.uid
        assert view.fence == 1
    await scene.user.apply(user_secret("mine", key="value"))
    await scene.cluster.delete_attempt_secrets(one, keep=["one-b"])
    for free in ("one-a", "one-c"):
        await scene.cluster.create_secret(secret_for(one, free))
    for taken in ("one-b", "two-a", "mine"):
        with pytest.raises(AlreadyExists):
            await scene.cluster.create_secret(secret_for(one, taken))
    await scene.cluster.delete_attempt_secrets(one, keep=[])
    await scene.cluster.create_secret(secret_for(one, "one-b"))


async def test_whether_a_secret_exists(scene: Scene) -> None:
    """In a cluster the operator may not look."""
    await scene.user.apply(user_secret("mine", key="value"))
    key = ObjectKey(scene.namespace, "mine")
    local = scene.adapter == "local"
    assert await scene.cluster.secret_exists(key, "key") is (True if local else None)
    assert await scene.cluster.secret_exists(key, "other") is (False if local else None)


async def test_a_namespace_has_one_uid(scene: Scene) -> None:
    uid = await scene.cluster.namespace_uid(scene.namespace)
    assert uid
    assert await scene.cluster.namespace_uid(scene.namespace) == uid
    assert not await scene.cluster.namespace_terminating(scene.namespace)


async def test_events_are_read_back_in_order(scene: Scene) -> None:
    run = await scene.run()
    other = await scene.run("two")
    for reason in ("Started", "Resumed"):
        event = ClusterEvent(
            run=run, type="Normal", reason=reason, action="Reconcile", note="ü" * 900
        )
        await scene.cluster.emit(event)
    await scene.cluster.emit(
        ClusterEvent(run=other, type="Warning", reason="Other", action="Reconcile", note="")
    )
    events = await scene.user.events("one")
    assert [event.reason for event in events] == ["Started", "Resumed"]
    assert all(event.at is not None and event.note.startswith("üüü") for event in events)


async def test_events_of_an_earlier_run_of_the_same_name_are_not_shown(scene: Scene) -> None:
    event = ClusterEvent(
        run=await scene.run(), type="Normal", reason="Old", action="Reconcile", note=""
    )
    await scene.cluster.emit(event)
    await scene.user.remove_run("one")
    again = await scene.run()
    await scene.cluster.emit(replace(event, run=again, reason="New"))
    assert [event.reason for event in await scene.user.events("one")] == ["New"]


async def test_a_deleted_run_takes_everything_of_it_along(scene: Scene) -> None:
    run = await scene.run()
    pod = await scene.pod(run)
    approval = await scene.cluster.create_approval(approval_for(run))
    await scene.user.remove_run("one")

    async def all_gone() -> bool:
        pods = await scene.cluster.list_pods()
        approvals = await scene.cluster.list_approvals()
        return not pods and not approvals

    await until(all_gone, "the pod and the approval are collected")
    for read, key in (
        (scene.cluster.get_pod, pod.key),
        (scene.cluster.get_approval, ObjectKey(scene.namespace, approval.metadata.name)),
    ):
        with pytest.raises(NotFound):
            await read(key)
