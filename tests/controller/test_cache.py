"""The cache: relists, late events, and objects that went while nobody watched (H23)."""

from __future__ import annotations

from dataclasses import replace

from tests.controller.worlds import KEY, OTHER_UID, UID, approval, pod, run

from agentrun.api import AgentRun
from agentrun.cluster.values import ContainerEnd, ObjectKey
from agentrun.controller.cache import Cache, run_key_of_approval, run_key_of_pod


def version(what: AgentRun, number: int) -> AgentRun:
    """The object at that resourceVersion."""
    meta = what.metadata.model_copy(update={"resource_version": str(number)})
    return what.model_copy(update={"metadata": meta})


def test_names_lead_back_to_the_run() -> None:
    assert run_key_of_pod(pod().key) == KEY
    made = approval().metadata
    assert run_key_of_approval(ObjectKey(made.namespace, made.name)) == KEY


def test_an_older_version_changes_nothing() -> None:
    cache = Cache()
    cache.put_run(version(run(generation=2), 9))
    cache.put_run(version(run(generation=1), 10**0))
    found = cache.runs.get(KEY)
    assert found is not None
    assert found.metadata.generation == 2


def test_versions_are_compared_as_numbers() -> None:
    cache = Cache()
    cache.put_run(version(run(generation=1), 9))
    cache.put_run(version(run(generation=2), 10))
    found = cache.runs.get(KEY)
    assert found is not None
    assert found.metadata.generation == 2


def test_opaque_versions_are_taken_as_they_come() -> None:
    cache = Cache()
    meta = run().metadata.model_copy(update={"resource_version": "opaque"})
    cache.put_run(run().model_copy(update={"metadata": meta}))
    cache.put_run(run(generation=5))
    found = cache.runs.get(KEY)
    assert found is not None
    assert found.metadata.generation == 5


def test_the_answer_to_its_creation_does_not_revive_a_pod_that_its_node_refused() -> None:
    cache = Cache()
    cache.put_pod(pod(phase="Failed"))
    cache.put_pod(pod(phase="Pending"))
    assert [each.phase for each in cache.pods_of(KEY)] == ["Failed"]


def test_a_deletion_leaves_a_tomb_until_it_is_settled() -> None:
    cache = Cache()
    cache.put_run(run())
    cache.remove_run(run())
    assert cache.runs.get(KEY) is None
    assert cache.tombs(KEY) == (UID,)
    cache.settle_tomb(KEY, UID)
    assert cache.tombs(KEY) == ()


def test_h23_recreated_under_its_name_without_a_deleted_event() -> None:
    cache = Cache()
    cache.put_run(run())
    cache.put_run(run(uid=OTHER_UID))
    assert cache.tombs(KEY) == (UID,)
    found = cache.runs.get(KEY)
    assert found is not None
    assert found.metadata.uid == OTHER_UID


def test_a_late_deletion_of_the_old_one_does_not_remove_the_new_one() -> None:
    cache = Cache()
    cache.put_run(run(uid=OTHER_UID))
    cache.remove_run(run())
    assert cache.runs.get(KEY) is not None
    assert cache.tombs(KEY) == (UID,)


def test_end_and_deletion_of_a_pod_are_never_taken_back() -> None:
    cache = Cache()
    ended = pod(runner_end=ContainerEnd(1, "Error"), deleting=True, disrupted=True)
    cache.put_pod(ended)
    cache.put_pod(pod())
    (found,) = cache.pods_of(KEY)
    assert found.deleting
    assert found.disrupted
    assert found.runner_end == ContainerEnd(1, "Error")


def test_another_pod_of_that_name_starts_afresh() -> None:
    cache = Cache()
    cache.put_pod(pod(deleting=True))
    cache.put_pod(pod(uid="second"))
    (found,) = cache.pods_of(KEY)
    assert not found.deleting


def test_marking_a_pod_as_deleting_is_for_that_pod_only() -> None:
    cache = Cache()
    cache.put_pod(pod())
    cache.mark_deleting(pod().key, "another")
    assert not cache.pods_of(KEY)[0].deleting
    cache.mark_deleting(pod().key, "pod-1")
    assert cache.pods_of(KEY)[0].deleting


def test_pods_and_approvals_are_found_by_run_and_forgotten() -> None:
    cache = Cache()
    cache.put_pod(pod(1))
    cache.put_pod(pod(2))
    cache.put_approval(approval())
    assert [p.attempt for p in cache.pods_of(KEY)] == [1, 2]
    assert len(cache.approvals_of(KEY)) == 1
    assert cache.remove_pod(pod(1).key, "pod-1") == KEY
    meta = approval().metadata
    assert cache.remove_approval(ObjectKey(meta.namespace, meta.name), meta.uid) == KEY
    assert [p.attempt for p in cache.pods_of(KEY)] == [2]
    assert cache.approvals_of(KEY) == ()


class TestRelist:
    """A complete list also says what is not there; but what is newer than the list stays."""

    def test_it_opens_the_gate(self) -> None:
        cache = Cache()
        assert not cache.synced
        cache.relist(cache.marks(), [], [], [])
        assert cache.synced

    def test_what_it_does_not_hold_is_gone(self) -> None:
        cache = Cache()
        cache.put_run(run())
        cache.put_pod(pod())
        cache.put_approval(approval())
        touched = cache.relist(cache.marks(), [], [], [])
        assert touched == {KEY}
        assert (cache.runs.get(KEY), cache.pods_of(KEY), cache.approvals_of(KEY)) == (None, (), ())
        assert cache.tombs(KEY) == (UID,)

    def test_what_came_after_it_was_asked_for_stays(self) -> None:
        cache = Cache()
        marks = cache.marks()
        cache.put_run(run())
        cache.put_pod(pod())
        cache.relist(marks, [], [], [])
        assert cache.runs.get(KEY) is not None
        assert len(cache.pods_of(KEY)) == 1
        assert cache.tombs(KEY) == ()

    def test_what_was_deleted_after_it_was_asked_for_stays_deleted(self) -> None:
        cache = Cache()
        cache.put_run(run())
        cache.put_pod(pod())
        marks = cache.marks()
        cache.remove_run(run())
        cache.remove_pod(pod().key, "pod-1")
        cache.relist(marks, [run()], [pod()], [])
        assert cache.runs.get(KEY) is None
        assert cache.pods_of(KEY) == ()

    def test_a_newer_event_is_not_overwritten_by_an_older_list(self) -> None:
        cache = Cache()
        marks = cache.marks()
        cache.put_pod(replace(pod(), phase="Succeeded"))
        cache.relist(marks, [], [pod()], [])
        assert cache.pods_of(KEY)[0].phase == "Succeeded"

    def test_recreated_while_the_watch_was_down(self) -> None:
        cache = Cache()
        cache.put_run(run())
        cache.relist(cache.marks(), [run(uid=OTHER_UID)], [], [])
        assert cache.tombs(KEY) == (UID,)
        found = cache.runs.get(KEY)
        assert found is not None
        assert found.metadata.uid == OTHER_UID

    def test_a_list_without_changes_touches_nothing(self) -> None:
        cache = Cache()
        cache.put_run(run())
        cache.put_pod(pod())
        assert cache.relist(cache.marks(), [run()], [pod()], []) == set()


def test_a_late_event_of_the_old_one_does_not_bury_the_new_one() -> None:
    """Each object has a worker of its own in Kopf, so events of two objects may change places. A
    live run was once revoked, because its predecessor's last change was seen after it."""
    cache = Cache()
    cache.put_run(version(run(), 8))
    cache.put_run(version(run(uid=OTHER_UID), 10))
    cache.put_run(version(run(), 9))
    assert cache.tombs(KEY) == (UID,)
    found = cache.runs.get(KEY)
    assert found is not None
    assert found.metadata.uid == OTHER_UID


def test_the_answer_to_a_write_does_not_bring_back_a_deleted_run() -> None:
    cache = Cache()
    cache.put_run(version(run(), 8))
    cache.remove_run(version(run(), 8))
    cache.put_run(version(run(), 9))
    assert cache.runs.get(KEY) is None
