"""Contract: pods of attempts, created, watched, stopped."""

from __future__ import annotations

import pytest
from tests.cluster_port.scenes import INSTALLATION, Scene, pod_for, until

from agentrun.api.names import pod_name
from agentrun.cluster.values import PodView
from agentrun.errors import AlreadyExists, Conflict, NotFound


async def test_a_pod_says_whose_it_is(scene: Scene) -> None:
    run = await scene.run()
    created = await scene.pod(run)
    for view in (created, await scene.cluster.get_pod(created.key)):
        assert view.key.name == pod_name("one", run.metadata.uid, 1)
        assert view.owner_uid == view.run_uid == run.metadata.uid
        assert (view.attempt, view.fence, view.installation) == (1, 11, INSTALLATION)
        assert view.created_at is not None
        assert not view.deleting
        assert not view.killed_by_user
        assert not view.evicted
        assert not view.disrupted
    assert [view.uid for view in await scene.cluster.list_pods()] == [created.uid]


async def test_an_adopted_record_is_named_beside_the_owner(scene: Scene) -> None:
    run = await scene.run()
    view = await scene.pod(run, run_uid="the-first-object")
    assert (view.owner_uid, view.run_uid) == (run.metadata.uid, "the-first-object")


async def test_a_name_is_taken_once(scene: Scene) -> None:
    run = await scene.run()
    first = await scene.pod(run)
    with pytest.raises(AlreadyExists):
        await scene.cluster.create_pod(pod_for(run))
    assert (await scene.cluster.get_pod(first.key)).uid == first.uid


@pytest.mark.parametrize(
    ("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (75, "Failed", "Error")]
)
async def test_the_end_of_the_runner_is_seen(
    scene: Scene, code: int, phase: str, reason: str
) -> None:
    run = await scene.run()
    created = await scene.pod(run)
    assert created.runner_end is None
    await scene.begin(created)
    assert (await scene.cluster.get_pod(created.key)).runner_running
    await scene.end(created, code)

    async def ended() -> PodView | None:
        view = await scene.cluster.get_pod(created.key)
        return view if view.runner_end else None

    view = await until(ended, "the end is seen")
    assert view.runner_end is not None
    assert (view.phase, view.runner_end.exit_code, view.runner_end.reason) == (phase, code, reason)
    assert not view.runner_running


async def test_deleting_names_the_very_pod(scene: Scene) -> None:
    run = await scene.run()
    pod = await scene.pod(run)
    with pytest.raises(Conflict):
        await scene.cluster.delete_pod(pod.key, "another-uid")
    assert not (await scene.cluster.get_pod(pod.key)).deleting


async def test_a_pod_that_is_stopping_is_visible(scene: Scene) -> None:
    run = await scene.run(pod={"terminationGracePeriodSeconds": 3600})
    pod = await scene.pod(run)
    await scene.hold(pod)
    await scene.cluster.delete_pod(pod.key, pod.uid)
    view = await scene.cluster.get_pod(pod.key)
    assert view.deleting
    await scene.cluster.delete_pod(pod.key, pod.uid, 0)
    with pytest.raises(NotFound):
        await scene.cluster.get_pod(pod.key)


async def test_grace_zero_is_at_once(scene: Scene) -> None:
    run = await scene.run()
    pod = await scene.pod(run)
    await scene.cluster.delete_pod(pod.key, pod.uid, 0)
    with pytest.raises(NotFound):
        await scene.cluster.get_pod(pod.key)
    assert await scene.cluster.list_pods() == []


async def test_an_ended_pod_can_be_deleted_and_its_name_used_again(scene: Scene) -> None:
    run = await scene.run()
    pod = await scene.pod(run)
    await scene.begin(pod)
    await scene.end(pod, 1)

    async def ended() -> bool:
        return (await scene.cluster.get_pod(pod.key)).runner_end is not None

    await until(ended, "the end is seen")
    await scene.cluster.delete_pod(pod.key, pod.uid)

    async def gone() -> bool:
        return await scene.cluster.list_pods() == []

    await until(gone, "the pod is gone")
    again = await scene.cluster.create_pod(pod_for(run))
    assert again.uid != pod.uid


async def test_killing_ends_the_newest_attempt(scene: Scene) -> None:
    run = await scene.run()
    pod = await scene.pod(run)
    await scene.begin(pod)
    assert await scene.user.kill("one", 9) == pod.key.name

    async def over() -> bool:
        try:
            return (await scene.cluster.get_pod(pod.key)).killed_by_user
        except NotFound:
            return True

    await until(over, "the pod is killed, or gone")


async def test_killing_needs_something_to_kill(scene: Scene) -> None:
    await scene.run()
    with pytest.raises(NotFound):
        await scene.user.kill("one", 9)
