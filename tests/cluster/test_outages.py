"""The database or the API server goes away for a while: runs neither lose an attempt nor their work."""

from __future__ import annotations

import pytest
from tests.chaos.harness import oracle
from tests.cluster.harness import eventually
from tests.cluster.runs import PATIENCE, Run
from tests.cluster.stage import Ground

pytestmark = pytest.mark.alone


def check_undisturbed(run: Run) -> None:
    """It ended in its first attempt, and nothing was charged."""
    row = run.row()
    assert (row["state"], row["attempt"]) == ("Succeeded", 1)
    assert (row["app_faults"], row["infra_faults"]) == (0, 0)
    assert [line["args"]["amount"] for line in run.charges()] == [100, 7]
    oracle.check_record(run.trail())
    oracle.check_effects(run.trail())


def test_a_database_that_is_away_for_longer_than_a_lease(ground: Ground) -> None:
    """H15: when it is back every lease has expired, and none is taken."""
    run = ground.start("held", lease={"ttlSeconds": 5})
    run.await_held()
    run.await_status("phase", "Running")
    database = ground.stage.database
    database.stop()
    try:
        eventually(
            lambda: run.condition("CheckpointHealthy")["reason"] == "StoreUnavailable",
            within=PATIENCE,
            what="the status says that the store is away",
            every=1,
        )
        assert run.status()["phase"] == "Running"
    finally:
        database.start()
    run.open_gate()
    run.await_condition("Succeeded")
    check_undisturbed(run)


def test_an_api_server_that_is_killed(ground: Ground) -> None:
    """Runners go on without it; the operator finds its way back to it by itself."""
    before = ground.stage.operator.restarts()
    quiet, robbed = ground.start("held", "quiet"), ground.start("held", "robbed")
    for run in (quiet, robbed):
        run.await_held()
    quiet.open_gate()
    node = ground.cluster.node("control")
    ground.cluster.exec_on_node(node, "pkill", "-KILL", "-x", "kube-apiserver")
    eventually(lambda: quiet.row()["state"] == "Succeeded", within=PATIENCE, what="it went on")
    eventually(
        lambda: ground.cluster.kubectl("get", "--raw", "/readyz") == "ok",
        within=PATIENCE,
        what="the API server is back",
        every=1,
    )
    robbed.force_delete_pod(1)
    robbed.await_held(attempt=2)
    robbed.open_gate()
    for run in (quiet, robbed):
        run.await_condition("Succeeded")
    check_undisturbed(quiet)
    assert (robbed.row()["attempt"], robbed.row()["infra_faults"]) == (2, 1)
    assert ground.stage.operator.restarts() == before
