"""A runner that is stopped for longer than its lease, and wakes up when another one owns the run."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest
from tests.chaos.harness import oracle, scenes
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.reference import undisturbed
from tests.chaos.harness.stage import failpoint, stage

from agentrun.cluster.local.processes import send
from agentrun.run.records import AttemptEnd
from agentrun.runner import failpoints
from agentrun.runner.exits import Exit
from agentrun.store.rows import RunRow

TTL = 4
CASES = [
    f"{failpoints.AFTER_CLAIM}:1",
    f"{failpoints.AFTER_REPLY}:2",
    f"{failpoints.AFTER_MODEL_COMMIT}:2",
    f"{failpoints.IN_TOOL}:1",
    f"{failpoints.BEFORE_RESULT_COMMIT}:2",
    f"{failpoints.BEFORE_FINAL_COMMIT}:1",
]


@pytest.mark.parametrize("case", CASES)
@overlapping
async def test_an_owner_that_slept_through_its_lease_changes_nothing_any_more(
    shared: Grounds, case: str
) -> None:
    """The whole node stops, so that nobody but the fence tells the old owner."""
    folder = shared.folder("stale")
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns, environ=failpoint(folder, f"{case}:stop")) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url, ttl=TTL))
            frozen = await made.frozen(name)
            await made.row_where(
                name, lambda row: row.holder not in (None, frozen.uid), "a new owner"
            )
            frozen.wake_runner()
            await made.gone(frozen.runner)
            exit_code = made.exit_code(frozen.pod)
            frozen.wake_node()
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)

    assert exit_code == Exit.FENCED
    _check(found, await shared.once(undisturbed))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 0, 1)
    ends = [(end.record.attempt, end.record.cause) for end in found.of(AttemptEnd)]
    assert ends == [(1, "LeaseExpired")]


def _check(found: Trail, reference: Trail) -> None:
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, reference)
    oracle.check_same_end(found, reference)


@overlapping
async def test_an_owner_that_is_told_to_go_while_it_sleeps_changes_nothing_either(
    shared: Grounds,
) -> None:
    """Only the process sleeps: when it wakes, it finds a SIGTERM and another owner."""
    folder = shared.folder("told")
    point = f"{failpoints.BEFORE_RESULT_COMMIT}:2:stop"
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns, environ=failpoint(folder, point)) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url, ttl=TTL))
            runner = await made.stopped(name)
            row = await made.row(name)
            assert row is not None
            await made.row_where(
                name, lambda now: now.holder not in (None, row.holder), "a new owner"
            )
            send(runner, signal.SIGCONT)
            await made.gone(runner)
            exit_code = made.exit_code(row.attempts[0].pod)
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)

    assert exit_code in (Exit.FENCED, Exit.DRAINED)
    _check(found, await shared.once(undisturbed))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 0, 1)


@overlapping
async def test_an_owner_whose_loop_hangs_loses_its_run(shared: Grounds) -> None:
    """Its thread would renew the lease for ever: it stops when the loop makes no progress."""
    folder = shared.folder("deaf")
    point = f"{failpoints.AFTER_REPLY}:2:hang"
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns, environ=failpoint(folder, point)) as made:
            manifest = scenes.manifest(
                model.url,
                shared.tools.url,
                lease={"ttlSeconds": 2 * TTL, "stallSeconds": 15},
                pod={"terminationGracePeriodSeconds": 1},
            )
            name = await made.apply(manifest)
            row = await made.row_where(name, lambda row: row.holder, "an owner")
            runner = made.runner(row.holder or "")
            await made.ended(name)
            assert runner is not None
            await made.gone(runner)
            found = await trail(made, name, model.log, shared.tools.effects)

    _check(found, await shared.once(undisturbed))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 0, 1)
    assert [one.record.cause for one in found.of(AttemptEnd)] == ["LeaseExpired"]


@overlapping
async def test_an_owner_that_wakes_up_in_time_goes_on(shared: Grounds) -> None:
    folder = shared.folder("nap")

    def half_over(row: RunRow) -> bool:
        assert row.lease_expires_at is not None
        return row.lease_expires_at - row.db_now < timedelta(seconds=row.lease_ttl_ms / 2000)

    with scenes.model(folder, scenes.everything()) as model:
        async with stage(
            folder, shared.dsns, environ=failpoint(folder, f"{failpoints.IN_TOOL}:stop")
        ) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url, ttl=20))
            runner = await made.stopped(name)
            await made.row_where(name, half_over, "half of the lease is over")
            send(runner, signal.SIGCONT)
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)

    reference = await shared.once(undisturbed)
    _check(found, reference)
    assert (found.row.attempt, found.row.fence) == (1, 1)
    assert len(found.called) == len(reference.called)


@overlapping
async def test_without_an_operator_an_expired_lease_takes_nothing_away(shared: Grounds) -> None:
    """Either the old owner goes on, or it gives up and the next attempt does: both are right."""
    folder = shared.folder("alone")
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(
            folder, shared.dsns, environ=failpoint(folder, f"{failpoints.AFTER_REPLY}:2:stop")
        ) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url, ttl=TTL))
            runner = await made.stopped(name)
            await made.stop_operators()
            await made.row_where(name, lambda row: row.lease_expired, "the lease is over")
            send(runner, signal.SIGCONT)
            await made.gone(runner)
            await made.start_operator()
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)

    _check(found, await shared.once(undisturbed))


@pytest.mark.parametrize("hours", [1, -1])
@overlapping
async def test_the_wall_clock_of_a_runner_owns_nothing(shared: Grounds, hours: int) -> None:
    folder = shared.folder("clock")
    environ = {"AGENTRUN_CLOCK_OFFSET": str(hours * 3600)}
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns, environ=environ) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url, ttl=TTL))
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)

    _check(found, await shared.once(undisturbed))
    assert found.row.attempt == 1
    assert found.row.last_commit_at is not None
    assert found.row.created_at <= found.row.last_commit_at <= found.row.db_now
