"""SIGKILL at every named point of the runner, and at random instants: the run ends as if nothing had
happened."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

import pytest
from tests.chaos.harness import oracle, scenes
from tests.chaos.harness.batch import Batch, play, wanted
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.killer import kill_at_random
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.stage import failpoint, fired, stage

from agentrun.run.records import AttemptEnd
from agentrun.runner import failpoints

POINTS = {
    failpoints.BEFORE_CLAIM: (1,),
    failpoints.AFTER_CLAIM: (1,),
    failpoints.DURING_MODEL: (1, 2, 3),
    failpoints.AFTER_REPLY: (1, 2, 5),
    failpoints.AFTER_MODEL_COMMIT: (1, 3, 5),
    failpoints.IN_TOOL: (1, 2),
    failpoints.AFTER_EFFECT: (1, 4, 6),
    failpoints.BEFORE_RESULT_COMMIT: (1, 5, 8),
    failpoints.BETWEEN_RESULTS: (1, 3),
    failpoints.AFTER_ROUND: (1, 2, 4),
    failpoints.BEFORE_FINAL_COMMIT: (1,),
    failpoints.AFTER_FINAL_COMMIT: (1,),
}
CASES = [f"{name}:{nth}" for name, counts in POINTS.items() for nth in counts]
RANDOM, LONG = "random", "long"
"""Kills at random, and the same script undisturbed."""
TURNS, KILLS = 50, 20
SEED = int(os.environ.get("CHAOS_SEED", "0")) or int.from_bytes(os.urandom(4))
"""``CHAOS_SEED`` plays a failed test again, as far as time repeats itself."""


@dataclass(frozen=True)
class Played:
    """A scene that has been played, and which points fired in it."""

    trail: Trail
    fired: set[str]
    kills: int = 1


def test_every_point_is_tried() -> None:
    assert set(POINTS) == set(failpoints.NAMES)


@pytest.fixture(scope="module")
def played(shared: Grounds, request: pytest.FixtureRequest) -> Batch[Played]:
    """All scenes of this module that were asked for."""
    cases = wanted(request)
    if RANDOM in cases:
        cases = [RANDOM, LONG, *(case for case in cases if case != RANDOM)]
    return play(cases, lambda case: _scene(case)(shared, case))


def _scene(case: str) -> Callable[[Grounds, str], Awaitable[Played]]:
    return _play_long if case in (RANDOM, LONG) else _play


async def _play_long(shared: Grounds, case: str) -> Played:
    folder = shared.folder(case)
    with scenes.model(folder, scenes.long(TURNS)) as model:
        async with stage(folder, shared.dsns) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url))
            kills = 0
            if case == RANDOM:
                kills = await kill_at_random(made, name, Random(SEED), KILLS)
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)
            return Played(found, set(), kills)


async def _play(shared: Grounds, case: str) -> Played:
    folder = shared.folder("killed")
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns, environ=failpoint(folder, case)) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url))
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)
            return Played(found, fired(folder))


@pytest.mark.parametrize("case", CASES)
def test_killed_anywhere_a_run_ends_as_if_nothing_had_happened(
    played: Batch[Played], undisturbed: Trail, case: str
) -> None:
    point = case.partition(":")[0]
    outcome = played.of(case)
    found = outcome.trail

    assert outcome.fired == {point}, "the point was never reached"
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, undisturbed)
    oracle.check_same_end(found, undisturbed)
    if point == failpoints.AFTER_FINAL_COMMIT:
        assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (1, 0, 0)
    else:
        assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 1, 0)
        ends = [one.record for one in found.of(AttemptEnd)]
        assert [(end.attempt, end.fault, end.exit_code) for end in ends] == [(1, "App", 137)]


def test_undisturbed_the_run_is_what_its_script_says(undisturbed: Trail) -> None:
    found = undisturbed

    assert found.row.state == "Succeeded"
    assert found.row.attempt == 1
    assert found.row.totals.turns == 5
    assert found.row.totals.tool_calls == 10
    assert oracle.files(found.state) == {"workspace": {"notes.md": oracle.sha256(scenes.NOTES)}}
    assert scenes.NOTES.decode().replace("\n", "\\n") in oracle.messages(found.state).decode()


@pytest.mark.parametrize("case", [RANDOM])
def test_killed_twenty_times_at_random_a_run_ends_as_if_nothing_had_happened(
    played: Batch[Played], case: str
) -> None:
    print(f"CHAOS_SEED={SEED}")
    outcome, reference = played.of(case), played.of(LONG).trail
    found = outcome.trail

    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, reference)
    oracle.check_same_end(found, reference)
    assert outcome.kills == KILLS
    assert found.row.attempt == KILLS + 1
    assert found.row.app_faults + found.row.infra_faults == KILLS
    assert (found.row.totals.turns, found.row.totals.tool_calls) == (TURNS, 2 * 49 + 10)
