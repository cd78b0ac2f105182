"""A run's life on a real cluster, and what may happen to its pod."""

from __future__ import annotations

from tests.chaos.harness import oracle
from tests.cluster.runs import Run
from tests.cluster.stage import Ground

from agentrun.run.records import AttemptEnd


def check_record(run: Run) -> None:
    """The record is whole, and no call had its effect twice."""
    found = run.trail()
    oracle.check_record(found)
    oracle.check_effects(found)


def ends(run: Run) -> list[tuple[int, str, str]]:
    """How the earlier attempts ended, as the record has it."""
    written = run.trail().of(AttemptEnd)
    return [(one.record.attempt, one.record.cause, one.record.fault) for one in written]


def test_a_force_deleted_pod_is_replaced_after_the_last_commit(ground: Ground) -> None:
    run = ground.start("held", workspace=True)
    run.await_held()
    run.await_status("phase", "Running")
    run.force_delete_pod(1)
    run.await_held(attempt=2)
    run.open_gate()
    run.await_condition("Succeeded")

    first, second = run.status()["attempts"]
    assert (first["cause"], first["fault"]) == ("PodGone", "Infra")
    assert second["continuedFrom"]["attempt"] == 1
    assert second["continuedFrom"]["seq"] == first["lastSeq"]
    assert second["continuedFrom"]["traceId"] == first["traceId"]
    assert second["continuedFrom"]["spanId"] == first["spanId"]
    assert [line["args"]["amount"] for line in run.charges()] == [100, 7]
    assert run.row()["infra_faults"] == 1
    check_record(run)
