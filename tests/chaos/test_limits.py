"""Attempts that die again and again: the limits are exact, and poison is recognised."""

from __future__ import annotations

from tests.chaos.harness import oracle
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.scene import Scene, scene
from tests.chaos.harness.scenes import everything, long

from agentrun.run.records import AttemptEnd
from agentrun.runner import failpoints


def always(point: str) -> dict[str, str]:
    """Without a folder for marks the point fires in every attempt."""
    return {"AGENTRUN_FAILPOINT": point}


@overlapping
async def test_three_deaths_at_the_same_place_end_the_run(shared: Grounds) -> None:
    """What kills every attempt would kill the next one too, whatever is left of its retries."""
    environ = always(f"{failpoints.AFTER_REPLY}:1")
    async with scene(shared, everything(), environ=environ) as playing:
        found = await playing.ended()

    assert (found.row.state, found.row.reason) == ("Failed", "NoProgress")
    assert found.row.attempt == 3
    assert len(found.asked) == 3
    assert not found.called
    oracle.check_record(found)


@overlapping
async def test_attempts_that_get_on_are_counted_against_their_retries(shared: Grounds) -> None:
    environ = always(f"{failpoints.AFTER_ROUND}:1")
    async with scene(shared, long(20, 0.05), environ=environ, limits={"retries": 3}) as playing:
        found = await playing.ended()

    assert (found.row.state, found.row.reason) == ("Failed", "RetriesExhausted")
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (4, 4, 0)
    assert found.row.totals.turns == 4
    ends = [(one.record.attempt, one.record.fault) for one in found.of(AttemptEnd)]
    assert ends == [(attempt, "App") for attempt in (1, 2, 3, 4)]
    oracle.check_record(found)
    oracle.check_effects(found)


@overlapping
async def test_losses_are_counted_apart_from_failures(shared: Grounds) -> None:
    limits = {"retries": 0, "infraRetries": 1}
    async with scene(shared, long(50), limits=limits) as playing:
        await _lose(playing, 1)
        await _lose(playing, 2)
        found = await playing.ended()

    assert (found.row.state, found.row.reason) == ("Failed", "RetriesExhausted")
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 0, 2)
    oracle.check_record(found)


async def _lose(playing: Scene, attempt: int) -> None:
    """As ``agentrun kill`` does, once the attempt works."""
    await playing.stage.row_where(
        playing.name, lambda row: row.attempt == attempt and row.holder, f"attempt {attempt} works"
    )
    await playing.stage.kill(playing.name)
