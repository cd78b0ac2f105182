"""SIGKILL at every named point of the runner: the run ends as if nothing had happened."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.chaos.harness import oracle, scenes
from tests.chaos.harness.batch import Batch, play, wanted
from tests.chaos.harness.grounds import Grounds
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


@dataclass(frozen=True)
class Played:
    """A scene that has been played, and which points fired in it."""

    trail: Trail
    fired: set[str]


def test_every_point_is_tried() -> None:
    assert set(POINTS) == set(failpoints.NAMES)


@pytest.fixture(scope="module")
def played(shared: Grounds, request: pytest.FixtureRequest) -> Batch[Played]:
    """All scenes of this module that were asked for."""
    return play(wanted(request), lambda case: _play(shared, case))


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
