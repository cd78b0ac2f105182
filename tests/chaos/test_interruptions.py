"""Suspended, cancelled or drained in the middle of its work."""

from __future__ import annotations

import signal

import pytest
from tests.chaos.harness import oracle
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.reference import undisturbed
from tests.chaos.harness.scene import Scene, scene
from tests.chaos.harness.scenes import USAGE, everything, long
from tests.peers.modelscripts import DONE, call, reply, script
from tests.peers.toolserver import lines, requests_file

from agentrun.run.records import AttemptEnd
from agentrun.runner.exits import Exit


async def called(playing: Scene, tool: str) -> None:
    """Until the tool server has got a call of the run for this tool."""
    uid = await playing.stage.uid(playing.name)
    requests = requests_file(playing.shared.tools.effects)

    async def there() -> bool:
        return any(
            line["tool"] == tool and line["meta"]["run-uid"] == uid for line in lines(requests)
        )

    await playing.stage.until(there, f"a call of {tool}", playing.name)


async def asked(playing: Scene, times: int) -> None:
    """Until the model has got so many requests."""

    async def there() -> bool:
        return len(lines(playing.model.log)) >= times

    await playing.stage.until(there, f"{times} model requests", playing.name)


@overlapping
async def test_suspended_and_resumed_a_run_goes_on_where_it_was(shared: Grounds) -> None:
    async with scene(shared, everything()) as playing:
        await called(playing, "slow")
        await playing.change(suspend=True)
        await playing.phase("Suspended", "SuspendedByUser")

        async def quiet() -> bool:
            return not any(pod.runner_running for pod in await playing.stage.pods())

        await playing.stage.until(quiet, "no runner is left", playing.name)
        await playing.change(suspend=False)
        found = await playing.ended()

    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, await shared.once(undisturbed))
    oracle.check_same_end(found, await shared.once(undisturbed))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 0, 0)


@overlapping
async def test_a_cancel_does_not_wait_for_a_tool_that_hangs(shared: Grounds) -> None:
    hanging = script(
        reply(0, text="Hang.", tools=[call("hang"), call("charge", amount=1)], usage=USAGE),
        reply(1, text=DONE, usage=USAGE),
    )
    ops = {"url": shared.tools.url, "timeoutSeconds": 3600}
    async with scene(shared, hanging, ops=ops) as playing:
        await called(playing, "hang")
        await playing.change(cancel=True)
        found = await playing.ended()

    assert (found.row.state, found.row.attempt) == ("Cancelled", 1)
    assert len(found.asked) == 1
    assert len([line for line in found.called if line["tool"] == "hang"]) == 1
    oracle.check_record(found)
    oracle.check_effects(found)


@pytest.mark.parametrize("during", ["model", "tool"])
@overlapping
async def test_a_drained_runner_gives_its_run_back_at_once(shared: Grounds, during: str) -> None:
    """The lease runs for an hour: whoever waited for it would be seen waiting."""
    async with scene(shared, everything(), ttl=3600) as playing:
        if during == "tool":
            await called(playing, "slow")
        else:
            await asked(playing, 2)
        pod = (await playing.row()).attempts[0].pod
        await playing.stage.signal(playing.name, signal.SIGTERM)
        found = await playing.ended()

    assert playing.stage.exit_code(pod) == Exit.DRAINED
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, await shared.once(undisturbed))
    oracle.check_same_end(found, await shared.once(undisturbed))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 0, 1)
    ends = [one.record for one in found.of(AttemptEnd)]
    assert [(end.cause, end.fault, end.exit_code) for end in ends] == [("Drained", "Infra", 143)]
    if during == "tool":
        calls = [line["key"] for line in found.called]
        assert len(calls) == len(set(calls)), "a short call is waited for"


@overlapping
async def test_cancelled_between_turns_a_run_keeps_what_it_has_committed(shared: Grounds) -> None:
    async with scene(shared, long(40)) as playing:
        await asked(playing, 4)
        await playing.change(cancel=True)
        found = await playing.ended()

    assert (found.row.state, found.row.reason) == ("Cancelled", "CancelledByUser")
    assert 3 <= found.row.totals.turns < 40
    assert (found.row.app_faults, found.row.infra_faults) == (0, 0)
    oracle.check_record(found)
    oracle.check_effects(found)


@overlapping
async def test_a_deleted_run_leaves_nothing_behind_that_works(shared: Grounds) -> None:
    """No pod, no process, no further commit; what it had committed is still there."""
    async with scene(shared, long(40), pod={"terminationGracePeriodSeconds": 2}) as playing:
        await asked(playing, 3)
        before = await playing.trail()
        runner = playing.stage.runner(before.row.holder or "")
        assert runner is not None
        await playing.stage.user.remove_run(playing.name)
        await playing.stage.gone(runner)

        async def nothing() -> bool:
            row = await playing.stage.store.run(before.row.run_uid)
            revoked = row is not None and row.state == "Revoked"
            return revoked and not await playing.stage.pods()

        await playing.stage.until(nothing, "the run is revoked and its pods are gone")
        row = await playing.stage.store.run(before.row.run_uid)
        log = await playing.stage.log(before.row.run_uid)
        workspaces = playing.stage.workspaces()

    assert row is not None
    assert row.holder is None
    assert row.fence > before.row.fence
    assert len(log.commits) == row.seq >= before.row.seq
    assert not workspaces
