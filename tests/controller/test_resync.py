"""Full resync and sweep (H20): what watches have missed, and nothing too early."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.controller.simulation import Sim
from tests.controller.test_queue import Time, make
from tests.controller.test_scenes import reach_running
from tests.controller.worlds import KEY, NOW, OTHER_UID, UID, approval, pod, row, run

from agentrun.api import Phase
from agentrun.cluster.values import ObjectKey
from agentrun.controller.cache import object_key
from agentrun.controller.queue import WorkQueue
from agentrun.controller.resync import Resync, too_many
from agentrun.errors import ClusterUnavailable, Forbidden, NotFound, Rejected, StoreUnavailable
from agentrun.store.rows import RunState


@dataclass
class Scene:
    """A running run, and a resync over the same cache and store."""

    sim: Sim
    resync: Resync
    queue: WorkQueue

    async def turn(self, seconds: float = 0.0) -> None:
        """Time passes, and a resync."""
        self.sim.clock.seconds += seconds
        await self.resync.once()

    @property
    def tombs(self) -> tuple[str, ...]:
        """Objects that are known to be gone."""
        return self.sim.operators[0].cache.tombs(KEY)


@pytest.fixture
def scene() -> Scene:
    sim = Sim(scripts=(("commit", "hang"),))
    reach_running(sim)
    operator = sim.operators[0]
    queue = make(Time())
    resync = Resync(
        store=sim.store,
        cluster=sim.cluster,
        cache=operator.cache,
        ledger=operator.ledger,
        queue=queue,
        reconciler=operator.reconciler,
        settings=sim.settings,
        clock=sim.clock,
        jitter=lambda: 0.5,
    )
    return Scene(sim, resync, queue)


async def test_the_first_comes_soon_after_the_start(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run deleted while the operator started once stayed for five minutes."""
    waits: list[float] = []

    async def pause(_stop: Any, seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 3

    monkeypatch.setattr("agentrun.controller.resync.pause", pause)
    await scene.resync.run(asyncio.Event())
    assert waits == [20.0, 300.0, 300.0]


async def test_every_live_run_is_looked_at_again(scene: Scene) -> None:
    await scene.turn()
    assert len(scene.queue) == 1
    assert await scene.queue.get() == KEY


async def test_finished_runs_are_not(scene: Scene) -> None:
    scene.sim.scripts = ()
    scene.sim.settle()
    scene.queue.close()
    await scene.turn()
    assert len(scene.queue) == 0


async def test_a_forged_end_in_the_status_does_not_freeze_the_run(scene: Scene) -> None:
    """The record says that it is not over, so it is looked at, and its status becomes true again."""
    scene.sim.cluster.pods.clear()
    await scene.turn()
    scene.queue.done(await scene.queue.get())
    known = scene.sim.cluster.runs[KEY]
    assert known.status is not None
    forged = {"phase": Phase.SUCCEEDED, "completion_time": NOW}
    scene.sim.cluster.runs[KEY] = known.model_copy(
        update={"status": known.status.model_copy(update=forged)}
    )
    await scene.turn()
    await scene.turn()
    assert len(scene.queue) == 1
    await scene.sim.operators[0].reconciler.reconcile(KEY)
    shown = scene.sim.cluster.runs[KEY].status
    assert shown is not None
    assert (shown.phase, shown.completion_time) == (Phase.RUNNING, None)


async def test_a_deletion_that_no_watch_has_seen(scene: Scene) -> None:
    del scene.sim.cluster.runs[KEY]
    await scene.turn()
    assert scene.tombs == (UID,)
    assert len(scene.queue) == 1


async def test_a_deletion_that_is_found_while_the_store_is_away_is_not_forgotten(
    scene: Scene,
) -> None:
    del scene.sim.cluster.runs[KEY]
    scene.sim.store.up = False
    with pytest.raises(StoreUnavailable):
        await scene.turn()
    assert scene.tombs == (UID,)
    assert len(scene.queue) == 1


async def test_a_recreation_that_no_watch_has_seen(scene: Scene) -> None:
    scene.sim.cluster.runs[KEY] = run(uid=OTHER_UID)
    await scene.turn()
    assert scene.tombs == (UID,)


@pytest.mark.parametrize("error", [Rejected("spec.new: unknown"), ClusterUnavailable("no answer")])
async def test_a_run_that_this_release_cannot_read_is_not_taken_for_gone(
    scene: Scene, error: Exception
) -> None:
    """A list leaves it out. It was once revoked for that, and its pod deleted."""
    cluster = scene.sim.cluster

    async def nothing() -> Any:
        return []

    async def refuse(_key: ObjectKey) -> Any:
        raise error

    cluster.list_runs, cluster.get_run = nothing, refuse  # type: ignore[method-assign]
    await scene.turn()
    assert scene.tombs == ()
    assert scene.sim.operators[0].cache.runs.get(KEY) is not None


class TestSweep:
    """Rows without an object: twice, ten minutes apart, by live reads."""

    @pytest.fixture
    def orphaned(self, scene: Scene) -> Scene:
        """The object went while no operator was there; a fresh one knows only the row."""
        del scene.sim.cluster.runs[KEY]
        scene.sim.cluster.pods.clear()
        operator = scene.sim.operators[0]
        operator.start()
        scene.resync.cache = operator.cache
        scene.resync.reconciler = operator.reconciler
        return scene

    async def test_not_at_the_first_look(self, orphaned: Scene) -> None:
        await orphaned.turn()
        assert orphaned.tombs == ()

    async def test_not_before_ten_minutes(self, orphaned: Scene) -> None:
        await orphaned.turn()
        await orphaned.turn(599)
        assert orphaned.tombs == ()

    async def test_at_the_second_look_ten_minutes_later(self, orphaned: Scene) -> None:
        await orphaned.turn()
        await orphaned.turn(600)
        assert orphaned.tombs == (UID,)
        orphaned.sim.operators[0].reconcile()
        assert orphaned.sim.row.state == "Revoked"

    @pytest.mark.parametrize("state", [RunState.PENDING, RunState.SUSPENDED])
    async def test_runs_that_wait_are_swept_as_well(self, orphaned: Scene, state: RunState) -> None:
        """Deleted while no operator was there, a suspended run would wait for ever."""
        store = orphaned.sim.store
        store.rows[UID] = replace(store.rows[UID], state=state)
        await orphaned.turn()
        await orphaned.turn(600)
        assert orphaned.tombs == (UID,)
        orphaned.sim.operators[0].reconcile()
        assert orphaned.sim.row.state is RunState.REVOKED

    async def test_what_is_over_is_not_swept(self, orphaned: Scene) -> None:
        store = orphaned.sim.store
        store.rows[UID] = replace(store.rows[UID], state=RunState.SUCCEEDED)
        await orphaned.turn()
        await orphaned.turn(600)
        assert orphaned.tombs == ()

    async def test_an_object_that_is_there_in_between_starts_over(self, orphaned: Scene) -> None:
        await orphaned.turn()
        orphaned.sim.cluster.runs[KEY] = run()
        await orphaned.turn(300)
        del orphaned.sim.cluster.runs[KEY]
        orphaned.sim.operators[0].cache.relist(orphaned.sim.operators[0].cache.marks(), [], [], [])
        orphaned.sim.operators[0].cache.settle_tomb(KEY, UID)
        await orphaned.turn(300)
        assert orphaned.tombs == ()

    async def test_rows_of_namespaces_that_are_not_watched_are_nobodys_business(
        self, orphaned: Scene
    ) -> None:
        """Taken for missing, they would also pause the sweep of the others."""
        orphaned.resync.settings = replace(orphaned.resync.settings, namespaces=("elsewhere",))
        await orphaned.turn()
        await orphaned.turn(600)
        assert orphaned.tombs == ()

    async def test_h20_only_own_rows(self, orphaned: Scene) -> None:
        store = orphaned.sim.store
        store.rows[UID] = replace(store.rows[UID], installation="other")
        await orphaned.turn()
        await orphaned.turn(600)
        assert orphaned.tombs == ()

    @pytest.mark.parametrize("error", [ClusterUnavailable("no answer"), Forbidden("not watched")])
    async def test_no_answer_is_not_a_no(self, orphaned: Scene, error: Exception) -> None:
        async def refuse(_key: ObjectKey) -> Any:
            raise error

        orphaned.sim.cluster.get_run = refuse  # type: ignore[method-assign]
        await orphaned.turn()
        await orphaned.turn(600)
        assert orphaned.tombs == ()

    async def test_it_pauses_when_many_would_go(self, orphaned: Scene) -> None:
        for number in range(3):
            other = replace(row(), run_uid=f"u{number}", object_uid=f"u{number}", name=f"r{number}")
            orphaned.sim.store.rows[other.run_uid] = other
        await orphaned.turn()
        await orphaned.turn(600)
        assert orphaned.tombs == ()

    async def test_it_pauses_when_the_kind_is_missing(self, orphaned: Scene) -> None:
        async def missing() -> Any:
            raise NotFound("no such kind")

        orphaned.sim.cluster.list_runs = missing  # type: ignore[method-assign]
        for _ in range(2):
            with pytest.raises(NotFound):
                await orphaned.turn(600)
        assert orphaned.tombs == ()


@pytest.mark.parametrize(
    ("going", "rows", "paused"),
    [(0, 0, False), (1, 1, False), (1, 100, False), (2, 9, True), (2, 10, False), (21, 100, True)],
)
def test_a_fifth_is_the_limit(going: int, rows: int, paused: bool) -> None:
    assert too_many(going, rows) is paused


async def test_a_pod_whose_run_is_gone(scene: Scene) -> None:
    """The operator was down when the run was deleted, and the collector has not come by yet."""
    lost = pod(1, owner_uid="gone", uid="lost")
    scene.sim.cluster.pods = {lost.key: lost}
    await scene.turn()
    assert scene.tombs == ("gone",)
    scene.sim.operators[0].reconcile()
    assert lost.key not in scene.sim.cluster.pods or scene.sim.cluster.pods[lost.key].deleting


async def test_another_installations_pod_is_not_looked_at(scene: Scene) -> None:
    lost = pod(1, owner_uid="gone", uid="lost", installation="other")
    scene.sim.cluster.pods = {lost.key: lost}
    await scene.turn()
    assert scene.tombs == ()


async def test_an_approval_that_outlived_its_run(scene: Scene) -> None:
    """Deleted with --cascade=orphan: the collector does not come by for it."""
    left = approval(run_ref=approval().spec.run_ref.model_copy(update={"uid": "gone"}))
    scene.sim.cluster.approvals[object_key(left)] = left
    await scene.turn()
    assert scene.tombs == ("gone",)


def test_while_it_works_its_operator_does_not_believe_that_it_has_finished(scene: Scene) -> None:
    sim, operator = scene.sim, scene.sim.operators[0]
    current = sim.cluster.runs[KEY]
    assert current.status is not None
    forged = current.status.model_copy(update={"completion_time": sim.clock.wall()})
    operator.cache.put_run(current.model_copy(update={"status": forged}))
    for each in operator.cache.pods_of(KEY):
        operator.cache.remove_pod(each.key, each.uid)
    assert not operator.reconciler.settled(KEY)
