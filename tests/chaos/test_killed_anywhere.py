"""SIGKILL at every named point of the runner, and at random instants: the run ends as if nothing had
happened."""

from __future__ import annotations

from random import Random

import pytest
from tests.chaos.harness import oracle, scenes
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.killer import kill_at_random
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.reference import TURNS, new_seed, undisturbed, undisturbed_long
from tests.chaos.harness.stage import failpoint, fired, stage

from agentrun.run.records import AttemptEnd
from agentrun.runner import failpoints

KILLS = 20

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


def test_every_point_is_tried() -> None:
    assert set(POINTS) == set(failpoints.NAMES)


@overlapping
async def test_killed_twenty_times_at_random_a_run_ends_as_if_nothing_had_happened(
    shared: Grounds,
) -> None:
    seed = new_seed()
    try:
        await _killed_at_random(shared, Random(seed))
    except BaseException as error:
        error.add_note(f"CHAOS_SEED={seed}")
        raise


async def _killed_at_random(shared: Grounds, random: Random) -> None:
    folder = shared.folder("random")
    with scenes.model(folder, scenes.long(TURNS)) as model:
        async with stage(folder, shared.dsns) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url))
            kills = await kill_at_random(made, name, random, KILLS)
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)

    _check(found, await shared.once(undisturbed_long))
    assert kills == KILLS
    assert found.row.attempt == KILLS + 1
    assert found.row.app_faults + found.row.infra_faults == KILLS
    assert (found.row.totals.turns, found.row.totals.tool_calls) == (TURNS, 2 * 49 + 10)


@pytest.mark.parametrize("case", CASES)
@overlapping
async def test_killed_anywhere_a_run_ends_as_if_nothing_had_happened(
    shared: Grounds, case: str
) -> None:
    point = case.partition(":")[0]
    folder = shared.folder("killed")
    with scenes.model(folder, scenes.everything()) as model:
        async with stage(folder, shared.dsns, environ=failpoint(folder, case)) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url))
            await made.ended(name)
            found = await trail(made, name, model.log, shared.tools.effects)

    assert fired(folder) == {point}, "the point was never reached"
    _check(found, await shared.once(undisturbed))
    faults = (found.row.attempt, found.row.app_faults, found.row.infra_faults)
    if point == failpoints.AFTER_FINAL_COMMIT:
        assert faults == (1, 0, 0)
        return
    assert faults == (2, 1, 0)
    ends = [one.record for one in found.of(AttemptEnd)]
    assert [(end.attempt, end.fault, end.exit_code) for end in ends] == [(1, "App", 137)]


def _check(found: Trail, reference: Trail) -> None:
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, reference)
    oracle.check_same_end(found, reference)


@overlapping
async def test_undisturbed_the_run_is_what_its_script_says(shared: Grounds) -> None:
    found = await shared.once(undisturbed)

    assert found.row.state == "Succeeded"
    assert found.row.attempt == 1
    assert (found.row.totals.turns, found.row.totals.tool_calls) == (5, 10)
    assert oracle.files(found.state) == {"workspace": {"notes.md": oracle.sha256(scenes.NOTES)}}
    assert scenes.NOTES.decode().replace("\n", "\\n") in oracle.messages(found.state).decode()
