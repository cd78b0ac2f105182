"""A node that is lost with a runner on it, and comes back."""

from __future__ import annotations

import pytest
from tests.chaos.harness import oracle
from tests.cluster.harness import eventually
from tests.cluster.runs import PATIENCE
from tests.cluster.stage import Ground

from agentrun.run.records import AttemptEnd

pytestmark = pytest.mark.alone

RATHER_ON_THE_WORKER = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 50,
                "preference": {
                    "matchExpressions": [
                        {"key": "agentrun.test/role", "operator": "In", "values": ["worker"]}
                    ]
                },
            }
        ]
    }
}


def test_a_lost_nodes_run_goes_on_elsewhere_and_its_pod_is_fenced_off(ground: Ground) -> None:
    worker, control = ground.cluster.node("worker"), ground.cluster.node("control")
    document = ground.manifest("one", "held", workspace=True)
    document["spec"]["lease"] = {"ttlSeconds": 15}
    document["spec"]["pod"]["affinity"] = RATHER_ON_THE_WORKER
    run = ground.apply(document)
    run.await_held()
    (lost,) = run.pods()
    assert lost["spec"]["nodeName"] == worker

    with ground.cluster.paused_node(worker):
        run.await_held(attempt=2)
        taken = run.row()
        assert taken["fence"] == 2
        first, second = run.status()["attempts"]
        assert (first["cause"], first["fault"]) == ("LeaseExpired", "Infra")
        assert second["continuedFrom"]["seq"] == first["lastSeq"]
        assert second["node"] == control
        run.open_gate()
        run.await_condition("Succeeded")
        done = run.row()

    eventually(
        lambda: all(pod["metadata"]["uid"] != lost["metadata"]["uid"] for pod in run.pods()),
        within=PATIENCE,
        what="the pod that came back is gone",
        every=1,
    )
    assert run.row() == done
    assert (done["attempt"], done["app_faults"], done["infra_faults"]) == (2, 0, 1)
    assert [one.record.cause for one in run.trail().of(AttemptEnd)] == ["LeaseExpired"]
    assert [line["args"]["amount"] for line in run.charges()] == [100, 7]
    oracle.check_record(run.trail())
    oracle.check_effects(run.trail())
