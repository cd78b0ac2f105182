"""A run's life on a real cluster, and what may happen to its pod."""

from __future__ import annotations

from tests.chaos.harness import oracle
from tests.cluster.harness import eventually
from tests.cluster.harness.faults import partition
from tests.cluster.runs import PATIENCE, Run
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


def test_a_run_that_nobody_disturbs(ground: Ground) -> None:
    run = ground.start("plain", workspace=True)
    run.await_condition("Succeeded")
    run.await_condition("Finished")

    assert run.row()["attempt"] == 1
    (attempt,) = run.status()["attempts"]
    assert "fault" not in attempt
    assert [line["args"] for line in run.charges()] == [{"amount": 100}]
    assert oracle.files(run.trail().state)["workspace"].keys() == {"notes.md"}
    check_record(run)
    header, line = ground.cluster.kubectl("get", "arun", "-n", ground.namespace).splitlines()
    assert header.split() == [
        "NAME",
        "PHASE",
        "REASON",
        "ATTEMPT",
        "TURNS",
        "TOKENS",
        "COST",
        "AGE",
    ]
    assert line.split()[:7] == ["one", "Succeeded", "Succeeded", "1", "3", "330", "0.00135"]


def test_an_eviction_lets_the_run_go_on_at_once(ground: Ground) -> None:
    run = ground.start("held")
    run.await_held()
    run.evict_pod(1)
    run.await_held(attempt=2)
    run.open_gate()
    run.await_condition("Succeeded")

    assert [(cause, fault) for _, cause, fault in ends(run)] in (
        [("Disrupted", "Infra")],
        [("Drained", "Infra")],
    )
    assert run.row()["infra_faults"] == 1
    assert [line["args"]["amount"] for line in run.charges()] == [100, 7]
    check_record(run)


def test_a_pod_cut_off_from_the_database_loses_its_run(ground: Ground) -> None:
    run = ground.start("held", lease={"ttlSeconds": 10})
    run.await_held()
    before = run.row()["seq"]
    with partition(ground.cluster, run.pod(1), ground.namespace, [ground.stage.database.address]):
        run.await_held(attempt=2)
    run.open_gate()
    run.await_condition("Succeeded")

    first, second = run.status()["attempts"]
    assert (first["cause"], first["fault"]) == ("LeaseExpired", "Infra")
    assert first["lastSeq"] == before == second["continuedFrom"]["seq"]
    assert [line["args"]["amount"] for line in run.charges()] == [100, 7]
    check_record(run)


def test_a_runner_out_of_memory_is_its_own_fault(ground: Ground) -> None:
    document = ground.manifest("one", "heavy", limits={"retries": 1})
    document["spec"]["pod"]["resources"] = {"limits": {"memory": "128Mi"}}
    run = ground.apply(document)
    run.await_condition("Finished")

    first, second = run.status()["attempts"]
    assert (first["cause"], first["fault"], first["exitCode"]) == ("OOMKilled", "App", 137)
    assert (second["cause"], second["fault"]) == ("OOMKilled", "App")
    assert run.status()["phase"] == "Failed"
    assert run.status()["reason"] == "RetriesExhausted"
    assert run.condition("Succeeded")["status"] == "False"
    assert len(run.charges()) == 1
    check_record(run)


def test_suspended_there_is_no_pod_and_resumed_it_goes_on(ground: Ground) -> None:
    run = ground.start("held")
    run.await_held()
    run.patch({"suspend": True})
    run.open_gate()
    run.await_status("phase", "Suspended")
    assert run.status()["reason"] == "SuspendedByUser"
    run.await_no_pod_at_work()
    before = run.row()

    run.patch({"suspend": False})
    run.await_condition("Succeeded")

    after = run.row()
    assert (after["app_faults"], after["infra_faults"]) == (0, 0)
    assert after["attempt"] == before["attempt"] + 1
    assert [line["args"]["amount"] for line in run.charges()] == [100, 7]
    check_record(run)


def test_a_cancel_during_a_tool_call(ground: Ground) -> None:
    run = ground.start("hangs")
    run.await_call("hang")
    run.patch({"cancel": True})
    run.await_condition("Finished")

    assert run.status()["phase"] == "Cancelled"
    assert run.condition("Succeeded")["status"] == "False"
    run.await_no_pod_at_work()
    assert len(run.charges()) == 1
    assert run.row()["attempt"] == 1
    check_record(run)


def test_a_namespace_that_goes_away_takes_its_run_with_it(ground: Ground) -> None:
    old = ground.start("held")
    old.await_held()
    ground.cluster.kubectl("delete", "namespace", ground.namespace, "--wait=false")
    ground.cluster.wait(f"namespace/{ground.namespace}", "delete", timeout=240)
    eventually(lambda: old.row()["state"] == "Revoked", within=60, what="the run is revoked")

    ground.make_anew()
    new = ground.start("plain")
    new.await_condition("Succeeded")
    assert [len(run.charges()) for run in (old, new)] == [1, 1]
    assert old.row()["state"] == "Revoked"


def test_deleted_and_made_again_under_the_same_name_it_is_another_run(ground: Ground) -> None:
    old = ground.start("held")
    old.await_held()
    ground.cluster.kubectl("delete", old.target, "-n", ground.namespace)
    new = ground.start("plain")
    new.await_condition("Succeeded")

    assert old.uid != new.uid
    assert [len(run.charges()) for run in (old, new)] == [1, 1]
    assert {line["key"] for line in old.charges()} != {line["key"] for line in new.charges()}
    eventually(lambda: old.row()["state"] == "Revoked", within=60, what="the old one is revoked")
    eventually(lambda: not old.pods(), within=120, what="no pod of the old one is left")
    assert new.row()["attempt"] == 1
    check_record(new)


def test_a_budget_that_is_raised(ground: Ground) -> None:
    run = ground.start("plain", limits={"turns": 1})
    run.await_status("phase", "Suspended")
    assert run.status()["reason"] == "BudgetExceeded"
    run.await_no_pod_at_work()

    run.patch({"limits": {"turns": 50}})
    run.await_condition("Succeeded")

    row = run.row()
    assert (row["attempt"], row["app_faults"], row["infra_faults"]) == (2, 0, 0)
    assert run.status()["usage"]["turns"] == 3
    assert len(run.charges()) == 1
    check_record(run)


def test_a_finished_run_is_deleted_when_its_time_is_over(ground: Ground) -> None:
    run = ground.start("plain", ttlSecondsAfterFinished=5)
    ground.cluster.wait(run.target, "condition=Succeeded", ground.namespace)
    ground.cluster.wait(run.target, "delete", ground.namespace)
    eventually(lambda: not run.pods(), within=PATIENCE, what="its pod is gone as well")
    assert run.row()["state"] == "Succeeded"


def test_a_foreground_deletion_makes_nothing_anew(ground: Ground) -> None:
    """H24: while the garbage collector works, the object is still there, with a deletion time."""
    run = ground.start("held")
    run.await_held()
    where = ("-n", ground.namespace, "--cascade=foreground", "--wait=false")
    ground.cluster.kubectl("delete", run.target, *where)
    ground.cluster.wait(run.target, "delete", ground.namespace)
    eventually(lambda: not run.pods(), within=PATIENCE, what="no pod is left")
    row = run.row()
    assert (row["state"], row["attempt"]) == ("Revoked", 1)
