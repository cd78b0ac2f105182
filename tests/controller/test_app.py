"""The operator as a whole over the fakes: gate, workers, errors, stop; and Kopf's events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.controller.fakes import Clock, FakeCluster, FakeStore
from tests.controller.worlds import INSTALLATION, KEY, NAME, NAMESPACE, UID, run, spec

from agentrun.cluster.values import ObjectKey
from agentrun.controller import watch
from agentrun.controller.app import Operator
from agentrun.controller.settings import Settings
from agentrun.errors import ClusterUnavailable, StoreUnavailable
from agentrun.store.rows import RunState

SETTINGS = Settings(installation=INSTALLATION, image="r:1", runner_dsn="postgresql://r", poll=0.01)


class Stage:
    """An operator at work, and a test that waits for what it does."""

    def __init__(self, **more: Any) -> None:
        clock = Clock()
        self.store, self.cluster = FakeStore(clock), FakeCluster(clock)
        self.stop = asyncio.Event()
        self.operator = Operator(self.store, self.cluster, SETTINGS, **more)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.operator.run(self.stop))

    async def end(self) -> None:
        """Stop and wait; whatever it died of comes out here."""
        self.stop.set()
        if self.task is not None:
            await self.task

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let it work until something is so."""
        assert self.task is not None
        async with asyncio.timeout(60):
            while not condition():
                if self.task.done():
                    await self.task
                    raise AssertionError("the operator has ended")
                await asyncio.sleep(0)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    await made.end()


async def test_it_starts_what_is_there(stage: Stage) -> None:
    stage.cluster.apply(run())
    stage.start()
    await stage.until(lambda: bool(stage.cluster.pods))
    assert stage.store.rows[UID].state is RunState.ACTIVE
    assert stage.operator.ready


async def test_it_stops_although_a_library_swallows_the_cancellation(stage: Stage) -> None:
    """It once went on for ever: ``agentrun run`` hung when it was stopped while it connected."""
    look = stage.store.run
    waiting = asyncio.Event()

    async def swallowing(run_uid: str) -> Any:
        if not waiting.is_set():
            waiting.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return await look(run_uid)

    stage.store.run = swallowing  # type: ignore[method-assign]
    stage.cluster.apply(run())
    stage.start()
    await waiting.wait()
    async with asyncio.timeout(60):
        await stage.end()


async def test_h14_nothing_before_all_lists_are_complete(stage: Stage) -> None:
    stage.cluster.apply(run())
    asked = asyncio.Event()

    async def unavailable() -> Any:
        asked.set()
        raise ClusterUnavailable("no answer")

    stage.cluster.list_approvals = unavailable  # type: ignore[method-assign]
    stage.operator.queue.add(KEY)
    stage.start()
    await asked.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not stage.store.rows
    assert not stage.operator.ready


async def test_a_failing_run_is_tried_again_and_stops_nobody_else(stage: Stage) -> None:
    stage.cluster.apply(run())
    failures = 0
    real = stage.store.open_run

    async def failing(new: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures == 1:
            raise StoreUnavailable("no answer")
        if failures == 2:
            raise RuntimeError("a bug")
        return await real(new)

    stage.store.open_run = failing  # type: ignore[method-assign]
    stage.start()
    await stage.until(lambda: bool(stage.cluster.pods))
    assert failures == 3


async def test_the_poll_wakes_a_run_that_has_finished(stage: Stage) -> None:
    stage.cluster.apply(run())
    stage.start()
    await stage.until(lambda: bool(stage.cluster.pods))
    (pod,) = stage.cluster.pods.values()
    secret = stage.cluster.secret_of(pod)
    assert secret is not None
    assert stage.store.claim(UID, 1, secret.secret, pod.uid)
    stage.cluster.set_pod(pod.key, phase="Running", runner_running=True)
    stage.store.append(UID, 1, pod.uid, state=RunState.SUCCEEDED)
    await stage.until(lambda: stage.cluster.runs[KEY].status.phase == "Succeeded")  # type: ignore[union-attr]


def local_changes(made: Stage) -> asyncio.Queue[ObjectKey]:
    """The stage's cluster tells of what is put into the queue, as the local adapter does."""
    changed: asyncio.Queue[ObjectKey] = asyncio.Queue()

    async def changes() -> AsyncIterator[ObjectKey]:
        while True:
            yield await changed.get()

    made.cluster.changes = changes  # type: ignore[method-assign]
    return changed


async def test_local_changes_feed_the_queue() -> None:
    made = Stage()
    changed = local_changes(made)
    made.start()
    await made.until(lambda: made.operator.ready)
    made.cluster.apply(run())
    changed.put_nowait(KEY)
    await made.until(lambda: bool(made.cluster.pods))
    made.cluster.remove(KEY)
    changed.put_nowait(KEY)
    await made.until(lambda: made.store.rows[UID].state is RunState.REVOKED)
    await made.end()


async def test_a_local_change_that_cannot_be_read_at_once_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It once waited for the next full resync, five minutes."""
    monkeypatch.setattr("agentrun.controller.app.LOAD_RETRY_SECONDS", 0.01)
    made = Stage()
    changed = local_changes(made)
    made.start()
    await made.until(lambda: made.operator.ready)
    lists, busy = made.cluster.list_runs, [ClusterUnavailable("the file is busy")]

    async def list_runs() -> Any:
        if busy:
            raise busy.pop()
        return await lists()

    made.cluster.list_runs = list_runs  # type: ignore[method-assign]
    made.cluster.apply(run())
    changed.put_nowait(KEY)
    await made.until(lambda: bool(made.cluster.pods))
    await made.end()


async def test_h42_identity_is_checked_at_the_start() -> None:
    answers = asyncio.Event()

    async def forged_is_refused() -> bool:
        answers.set()
        return True

    made = Stage(identity_check=forged_is_refused)
    assert not made.operator._observer.identity_verified
    made.start()
    await answers.wait()
    await made.until(lambda: made.operator._observer.identity_verified)
    await made.end()


async def test_without_an_answer_identity_stays_unverified() -> None:
    asked = asyncio.Event()

    async def away() -> bool:
        asked.set()
        raise ClusterUnavailable("no answer")

    made = Stage(identity_check=away)
    made.start()
    await asked.wait()
    await made.until(lambda: made.operator.ready)
    assert not made.operator._observer.identity_verified
    await made.end()


async def test_the_end_of_the_watch_is_the_end_of_the_operator() -> None:
    async def broken(_operator: Operator, _stop: asyncio.Event) -> None:
        raise ClusterUnavailable("the watches have ended")

    made = Stage(watch=broken)
    made.start()
    assert made.task is not None
    with pytest.raises(ClusterUnavailable):
        await made.task


async def test_the_watch_fills_cache_and_queue() -> None:
    async def feeding(operator: Operator, stop: asyncio.Event) -> None:
        watch.on_run(operator, "ADDED", body)
        await stop.wait()

    body = {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "uid": UID, "resourceVersion": "5"},
        "spec": spec().to_dict(),
    }
    made = Stage(watch=feeding)
    made.start()
    await made.until(lambda: UID in made.store.rows or bool(made.operator.cache.tombs(KEY)))
    await made.end()


async def test_a_run_that_went_while_the_operator_started_is_revoked() -> None:
    """The watch has still seen it, the first list has not."""
    made = Stage()
    made.cluster.apply(run())
    made.start()
    await made.until(lambda: UID in made.store.rows and bool(made.cluster.pods))
    await made.end()
    (seen,) = made.cluster.runs.values()
    made.store.rows[UID] = replace(made.store.rows[UID], state=RunState.SUSPENDED)
    made.cluster.remove(KEY)
    again = Operator(made.store, made.cluster, SETTINGS)
    again.cache.put_run(seen)
    made.stop = asyncio.Event()
    made.task = asyncio.create_task(again.run(made.stop))
    await made.until(lambda: made.store.rows[UID].state is RunState.REVOKED)
    await made.end()


RUN = {
    "apiVersion": "agentrun.dev/v1alpha1",
    "kind": "AgentRun",
    "metadata": {
        "name": NAME,
        "namespace": NAMESPACE,
        "uid": UID,
        "resourceVersion": "5",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"prompt": "Look.", "agents": [{"name": "sre"}]},
}
POD = {
    "metadata": {
        "name": f"{NAME}-1a2b3-1",
        "namespace": NAMESPACE,
        "uid": "p",
        "labels": {"agentrun.dev/run-uid": UID, "agentrun.dev/attempt": "1"},
        "annotations": {"agentrun.dev/fence": "1", "agentrun.dev/installation": INSTALLATION},
    },
    "status": {"phase": "Running"},
}


class TestKopfEvents:
    """What the handlers do with what Kopf hands them."""

    @pytest.fixture
    def operator(self) -> Operator:
        return Stage().operator

    @pytest.mark.parametrize("kind", [None, "ADDED", "MODIFIED"])
    async def test_a_run(self, operator: Operator, kind: str | None) -> None:
        watch.on_run(operator, kind, RUN)
        found = operator.cache.runs.get(KEY)
        assert found is not None
        assert found.metadata.uid == UID
        assert await operator.queue.get() == KEY

    async def test_a_run_that_was_deleted(self, operator: Operator) -> None:
        watch.on_run(operator, "ADDED", RUN)
        watch.on_run(operator, "DELETED", RUN)
        assert operator.cache.runs.get(KEY) is None
        assert operator.cache.tombs(KEY) == (UID,)

    async def test_a_run_that_cannot_be_read(self, operator: Operator) -> None:
        watch.on_run(operator, "ADDED", {**RUN, "spec": {"promptt": "x"}})
        assert operator.cache.runs.get(KEY) is None
        assert len(operator.queue) == 0

    async def test_a_pod(self, operator: Operator) -> None:
        watch.on_pod(operator, None, POD)
        assert [p.fence for p in operator.cache.pods_of(KEY)] == [1]
        watch.on_pod(operator, "DELETED", POD)
        assert operator.cache.pods_of(KEY) == ()
        assert await operator.queue.get() == KEY

    async def test_an_approval(self, operator: Operator) -> None:
        from tests.controller.worlds import approval

        body = approval().to_dict()
        watch.on_approval(operator, "ADDED", body)
        assert len(operator.cache.approvals_of(KEY)) == 1
        assert await operator.queue.get() == KEY
        watch.on_approval(operator, "DELETED", body)
        assert operator.cache.approvals_of(KEY) == ()

    def test_the_registry_has_three_stateless_handlers(self, operator: Operator) -> None:
        import kopf

        registry = kopf.OperatorRegistry()
        watch.register(registry, operator)
        assert len(registry._watching.get_all_handlers()) == 3
        assert not registry._changing.get_all_handlers()
        assert not registry._spawning.get_all_handlers()
        assert not registry._indexing.get_all_handlers()

    def test_settings_that_must_not_be_the_defaults(self) -> None:
        found = watch.settings(clusterwide=True)
        assert found.peering.standalone
        assert not found.posting.enabled
        assert not found.scanning.disabled
        assert watch.settings(clusterwide=False).scanning.disabled
        assert found.watching.client_timeout > found.watching.server_timeout  # type: ignore[operator]

    def test_backoffs_never_end(self) -> None:
        waits = iter(watch.Backoffs())
        assert all(0 < next(waits) <= 15 for _ in range(1000))
