"""The operator's own life: what it costs the API server, and what its death costs a run."""

from __future__ import annotations

import json

import pytest
from tests.chaos.harness import oracle
from tests.cluster.deploy import NAMESPACE, Requests
from tests.cluster.harness import eventually
from tests.cluster.harness.faults import signal
from tests.cluster.runs import PATIENCE, Run
from tests.cluster.stage import Ground

from agentrun.controller import failpoints
from agentrun.run.records import AttemptStart

pytestmark = pytest.mark.alone

READS = frozenset({"get", "list", "watch"})
MARKERS = "/tmp/failpoints"


def check_one_pod_per_fence(run: Run) -> None:
    """No fence was given to two pods, and no attempt was skipped."""
    fences = [one.record.fence for one in run.trail().of(AttemptStart)]
    assert len(fences) == len(set(fences)) == run.row()["attempt"]
    oracle.check_record(run.trail())
    oracle.check_effects(run.trail())


def settled(ground: Ground, run: Run) -> bool:
    """Nothing of the run's attempts is left."""
    secrets = ground.cluster.select("secrets", ground.namespace, f"agentrun.dev/run-uid={run.uid}")
    return not run.pods() and not secrets


def test_what_a_clean_run_costs_the_api_server(ground: Ground) -> None:
    warm = ground.start("plain", "warm")
    warm.await_condition("Succeeded")
    eventually(lambda: settled(ground, warm), within=PATIENCE, what="the first run is cleaned up")
    before = ground.stage.operator.requests()
    run = ground.start("plain")
    run.await_condition("Succeeded")
    eventually(lambda: settled(ground, run), within=PATIENCE, what="the run is cleaned up")
    spent: Requests = ground.stage.operator.requests()
    spent.subtract(before)

    reads = {key: n for key, n in spent.items() if key[0] in READS and n}
    events = spent["create", "events"]
    writes = {
        key: n for key, n in spent.items() if key[0] not in READS and key[1] != "events" and n
    }
    told = {" ".join(key): n for key, n in sorted({**reads, **writes}.items())}
    (ground.stage.output / "api-requests.json").write_text(json.dumps(told))
    print(f"a clean run: {sum(writes.values())} writes {told}, {events} events")
    assert sum(writes.values()) <= 8, told
    assert writes["update", "agentruns/status"] <= 4, told
    assert reads == {}
    assert events <= 4


def test_killed_in_the_middle_the_operator_finds_everything_again(ground: Ground) -> None:
    quiet, robbed = ground.start("held", "quiet"), ground.start("held", "robbed")
    for run in (quiet, robbed):
        run.await_held()

    ground.stage.operator.kill()
    robbed.force_delete_pod(1)
    quiet.open_gate()
    ground.stage.operator.await_ready()

    quiet.await_condition("Succeeded")
    assert quiet.row()["attempt"] == 1
    robbed.await_held(attempt=2)
    robbed.open_gate()
    robbed.await_condition("Succeeded")
    assert (robbed.row()["attempt"], robbed.row()["infra_faults"]) == (2, 1)
    for run in (quiet, robbed):
        assert [line["args"]["amount"] for line in run.charges()] == [100, 7]
        check_one_pod_per_fence(run)


def test_decisions_that_nobody_vouches_for_wait(ground: Ground) -> None:
    """H42: without the policy anyone could be anyone."""
    operator, binding = ground.stage.operator, "validatingadmissionpolicybinding/agentrun-decide"
    run, name = ground.asking()
    ground.cluster.kubectl("delete", binding)
    try:
        operator.kill()
        operator.await_ready()
        ground.decide(name, "Approve")
        run.await_status("reason", "ApprovalIdentityUnverified")
        assert run.row()["state"] == "Suspended"
    finally:
        operator.upgrade()
    operator.kill()
    run.await_condition("Succeeded")
    assert len(run.charges()) == 1


def test_sigterm_ends_it_in_good_order(ground: Ground) -> None:
    operator = ground.stage.operator
    pod, before = operator.pod()["metadata"]["name"], operator.restarts()
    signal(ground.cluster, pod, NAMESPACE, "operator", "TERM")
    eventually(
        lambda: operator.restarts() == before + 1, within=PATIENCE, what="it is started again"
    )
    (status,) = operator.pod()["status"]["containerStatuses"]
    assert status["lastState"]["terminated"]["exitCode"] == 0
    operator.await_ready()
    run = ground.start("plain")
    run.await_condition("Succeeded")
    assert run.row()["attempt"] == 1


# In a real container; tests/chaos has all of its points. Last, because a point once armed stays.
POINTS = (failpoints.AFTER_MINT, failpoints.AFTER_POD_CREATE, failpoints.AFTER_DECIDE)


@pytest.mark.parametrize("point", POINTS)
def test_killed_between_two_of_its_steps_the_operator_goes_on(ground: Ground, point: str) -> None:
    operator = ground.stage.operator
    operator.upgrade({failpoints.VARIABLE: point, failpoints.FOLDER: MARKERS})
    run, name = ground.asking()
    ground.decide(name, "Approve")
    run.await_condition("Succeeded")

    assert operator.restarts() == 1
    assert (run.row()["attempt"], run.row()["app_faults"], run.row()["infra_faults"]) == (2, 0, 0)
    assert len(run.charges()) == 1
    check_one_pod_per_fence(run)
