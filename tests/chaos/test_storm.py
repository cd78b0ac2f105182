"""Runners, nodes, operators, workspaces and the database fail at random, people suspend and resume:
the run ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
from random import Random

from tests.chaos.harness import oracle
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds, postgres
from tests.chaos.harness.operators import operators
from tests.chaos.harness.reference import new_seed, undisturbed_storm
from tests.chaos.harness.scene import scene
from tests.chaos.harness.scenes import STORM_GATE, stormy
from tests.chaos.harness.storm import Storm

from agentrun.cli.postgres import Dsns

GUSTS = int(os.environ.get("CHAOS_GUSTS", "25"))
TTL = 5


@overlapping
async def test_in_a_storm_of_failures_a_run_ends_as_if_nothing_had_happened(
    shared: Grounds,
) -> None:
    seed = new_seed()
    done: list[str] = []
    try:
        await _weathered(shared, Random(seed), done)
    except BaseException as error:
        error.add_note(f"CHAOS_SEED={seed}: {' '.join(done)}")
        raise


async def _weathered(shared: Grounds, random: Random, done: list[str]) -> None:
    folder = shared.folder("storm")
    with postgres(folder, shared.template) as server:
        async with (
            scene(
                shared,
                stormy(),
                folder=folder,
                dsns=Dsns(server.dsn, server.runner_dsn),
                operator=False,
                ttl=TTL,
                toolPolicies=[STORM_GATE],
            ) as playing,
            operators(shared.root, playing.stage, {}, 2) as keeper,
        ):
            storm = Storm(playing, keeper, server, random, TTL, done)
            approving = asyncio.create_task(storm.approve())
            try:
                await storm.blow(GUSTS)
                found = await playing.ended()
            finally:
                approving.cancel()

    reference = await shared.once(undisturbed_storm)
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, reference)
    oracle.check_same_end(found, reference)
    assert found.row.state == "Succeeded"
