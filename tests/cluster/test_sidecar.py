"""A tool server that runs beside the runner."""

from __future__ import annotations

from typing import Any

from tests.chaos.harness import oracle
from tests.cluster.harness import Unavailable, eventually
from tests.cluster.harness.faults import signal
from tests.cluster.peers import lines_of
from tests.cluster.runs import PATIENCE, Run
from tests.cluster.stage import Ground

CONTAINER = "tool-ops"


def beside(ground: Ground, scene: str) -> Run:
    if not ground.stage.sidecar_image:
        raise Unavailable("the tool server's image cannot be built here")
    server = {"name": "ops", "image": ground.stage.sidecar_image, "timeoutSeconds": 30}
    return ground.start(scene, servers=[server])


def within(ground: Ground, run: Run, *command: str) -> str:
    where = ("-n", ground.namespace, run.pod(1), "-c", CONTAINER)
    return ground.cluster.kubectl("exec", *where, "--", *command)


def calls(ground: Ground, run: Run, tool: str) -> list[dict[str, Any]]:
    found = lines_of(within(ground, run, "sh", "-c", "cat /tmp/effects.requests || true"))
    return [line for line in found if line["tool"] == tool]


def restarts(run: Run) -> int:
    (pod,) = run.pods()
    statuses = pod["status"]["initContainerStatuses"]
    return sum(s["restartCount"] for s in statuses if s["name"] == CONTAINER)


def test_a_killed_sidecar_is_noticed_and_its_call_made_again(ground: Ground) -> None:
    """H32: a restarted server is an unknown outcome, answered with the same key."""
    run = beside(ground, "held")
    eventually(
        lambda: calls(ground, run, "gate"), within=PATIENCE, what="the gate is called", every=1
    )
    (before,) = calls(ground, run, "gate")
    signal(ground.cluster, run.pod(1), ground.namespace, CONTAINER)
    eventually(lambda: restarts(run) == 1, within=PATIENCE, what="the sidecar is back", every=1)
    again = eventually(
        lambda: calls(ground, run, "gate")[1:], within=PATIENCE, what="it is called again", every=1
    )
    assert {line["key"] for line in again} == {before["key"]}
    within(ground, run, "sh", "-c", f"mkdir -p /tmp/gates && touch /tmp/gates/{run.uid}")
    run.await_condition("Succeeded")

    assert run.row()["attempt"] == 1
    oracle.check_record(run.trail())
