"""Operators that are killed between any two of their steps, or that are two at once."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass

import pytest
from tests.chaos.harness import oracle, scenes
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.operators import CLOCK, Made, note_pods, operators, pods_made
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.reference import undisturbed
from tests.chaos.harness.stage import Stage, failpoint, stage

from agentrun.api import Decision
from agentrun.cluster.local.processes import alive, send
from agentrun.controller import failpoints
from agentrun.run.records import ApprovalDecision, ApprovalRequest
from agentrun.runner import failpoints as runner_failpoints
from agentrun.runner.exits import Exit

POINTS = {
    failpoints.AFTER_MINT: (1,),
    failpoints.AFTER_SECRET: (1, 2),
    failpoints.AFTER_POD_CREATE: (1, 2),
    failpoints.AFTER_APPROVAL_CREATE: (1,),
    failpoints.AFTER_DECIDE: (1,),
    failpoints.BEFORE_STATUS: (1, 2, 3, 4),
}
CASES = [f"{name}:{nth}" for name, counts in POINTS.items() for nth in counts]


@dataclass(frozen=True)
class Driven:
    """A run with one approval, and what its operators went through."""

    trail: Trail
    pods: list[Made]
    killed: int


def test_every_point_is_tried() -> None:
    assert set(POINTS) == set(failpoints.NAMES)


async def _drive(shared: Grounds, environ: dict[str, str], *, count: int = 1) -> Driven:
    folder = shared.folder("operator")
    environ = {**failpoint(folder, ""), **environ}
    with scenes.model(folder, scenes.gated()) as model:
        async with stage(folder, shared.dsns, operator=False) as made:
            note_pods(made)
            async with operators(shared.root, made, environ, count) as keeper:
                name = await made.apply(
                    scenes.manifest(model.url, shared.tools.url, toolPolicies=[scenes.GATE])
                )
                await _approve(made, name)
                await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)
            return Driven(found, pods_made(made), keeper.killed)


async def _never_killed(shared: Grounds) -> Driven:
    return await _drive(shared, {})


async def _approve(made: Stage, name: str) -> None:
    """As a person would: what is asked is approved, and asked about again if it was made anew."""
    await made.phase(name, "Suspended", "ApprovalPending")
    approval = await made.approval(name)
    await made.user.decide(approval.metadata.name, Decision.APPROVE)


@pytest.mark.parametrize("case", CASES)
@overlapping
async def test_an_operator_killed_anywhere_leaves_nothing_undone_or_done_twice(
    shared: Grounds, case: str
) -> None:
    outcome = await _drive(shared, {failpoints.VARIABLE: case})

    assert outcome.killed == 1, "the point was never reached"
    _check(outcome, await shared.once(_never_killed))


@overlapping
async def test_two_operators_at_once_do_everything_once(shared: Grounds) -> None:
    outcome = await _drive(shared, {}, count=2)

    assert outcome.killed == 0
    _check(outcome, await shared.once(_never_killed))


def _check(outcome: Driven, never: Driven) -> None:
    found, reference = outcome.trail, never.trail
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, reference)
    oracle.check_same_end(found, reference)
    assert (found.row.attempt, found.row.fence) == (2, 2)
    assert (found.row.app_faults, found.row.infra_faults) == (0, 0)
    assert Counter(pod.fence for pod in outcome.pods) == {1: 1, 2: 1}
    assert len(found.of(ApprovalRequest)) == len(found.of(ApprovalDecision)) == 1


@overlapping
async def test_two_operators_replace_a_dead_runner_once(shared: Grounds) -> None:
    folder = shared.folder("both")
    environ = failpoint(folder, f"{runner_failpoints.AFTER_REPLY}:2")
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns, operator=False) as made:
            note_pods(made)
            async with operators(shared.root, made, environ, 2) as keeper:
                name = await made.apply(scenes.manifest(model.url, shared.tools.url))
                await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)
            pods = pods_made(made)

    assert keeper.killed == 0
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_same_end(found, await shared.once(undisturbed))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 1, 0)
    assert Counter(pod.fence for pod in pods) == {1: 1, 2: 1}


@pytest.mark.parametrize("hours", [1, -1])
@overlapping
async def test_the_wall_clock_of_an_operator_ends_nothing(shared: Grounds, hours: int) -> None:
    """No takeover and no deletion: leases and the TTL of finished runs go by the database's clock."""
    folder = shared.folder("wall")
    with scenes.model(folder, scenes.everything()) as model:
        async with (
            stage(folder, shared.dsns, operator=False) as made,
            operators(shared.root, made, {CLOCK: str(hours * 3600)}),
        ):
            for name in ("first", "second"):
                manifest = scenes.manifest(
                    model.url, shared.tools.url, name=name, ttl=5, ttlSecondsAfterFinished=1800
                )
                await made.apply(manifest)
                await made.ended(name)
            rows = [await made.row(name) for name in ("first", "second")]

    for row in rows:
        assert row is not None
        assert (row.state, row.attempt) == ("Succeeded", 1)


@overlapping
async def test_a_run_made_again_under_its_old_name_shares_nothing_with_the_old_one(
    shared: Grounds,
) -> None:
    """The old pod does not go away: its runner is stopped and has two minutes to end."""
    folder = shared.folder("again")
    point = f"{runner_failpoints.AFTER_REPLY}:2:stop"
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns, environ=failpoint(folder, point)) as made:
            note_pods(made)
            wanted = scenes.manifest(
                model.url, shared.tools.url, pod={"terminationGracePeriodSeconds": 120}
            )
            name = await made.apply(wanted)
            old_runner = await made.stopped(name)
            old = await trail(made, name, model.log, shared.tools.effects)
            await made.user.remove_run(name)
            await made.apply(wanted)
            await made.ended(name)
            assert alive(old_runner), "the old pod was to linger"
            new = await trail(made, name, model.log, shared.tools.effects)
            send(old_runner, signal.SIGCONT)
            await made.gone(old_runner)
            code = made.exit_code(old.row.attempts[0].pod)
            left = await made.store.run(old.row.run_uid)
            late = await made.log(old.row.run_uid)

    assert new.row.run_uid != old.row.run_uid
    assert (new.row.state, new.row.attempt, new.row.fence) == ("Succeeded", 1, 1)
    oracle.check_record(new)
    oracle.check_effects(new)
    assert len(new.called) == 7
    assert not {line["key"] for line in new.called} & {line["key"] for line in old.called}
    assert left is not None
    assert (left.state, left.seq) == ("Revoked", old.row.seq)
    assert len(late.commits) == len(old.log.commits)
    assert code in (Exit.FENCED, Exit.DRAINED)
