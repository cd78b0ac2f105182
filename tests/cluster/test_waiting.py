"""What keeps a pod from starting is shown as the reason, consumes no attempt, and passes."""

from __future__ import annotations

import pytest
from tests.cluster.runs import Run
from tests.cluster.scenes import Manifest
from tests.cluster.stage import Ground

NOWHERE = {"nodeSelector": {"agentrun.test/role": "none"}}
ABSENT = {"image": "localhost/agentrun-absent:none"}


def pod(document: Manifest, **settings: object) -> Manifest:
    """The run with other settings of its pod."""
    document["spec"]["pod"].update(settings)
    return document


def check_waits(run: Run, reason: str) -> None:
    """The run shows why it waits, at its first attempt, with nothing charged."""
    run.await_status("reason", reason)
    status, row = run.status(), run.row()
    assert status["phase"] == "Pending"
    assert status["message"]
    assert (row["attempt"], row["app_faults"], row["infra_faults"]) == (1, 0, 0)


def check_succeeds_at_once(run: Run) -> None:
    """What kept it is gone: it succeeds in its first attempt."""
    run.await_condition("Succeeded")
    row = run.row()
    assert (row["attempt"], row["app_faults"], row["infra_faults"]) == (1, 0, 0)


@pytest.mark.parametrize(
    ("reason", "settings"), [("ImagePull", ABSENT), ("Unschedulable", NOWHERE)], ids=str
)
def test_a_pod_that_never_starts(ground: Ground, reason: str, settings: dict[str, object]) -> None:
    limits = {"startDeadlineSeconds": 20}
    run = ground.apply(pod(ground.manifest("one", "plain", limits=limits), **settings))
    check_waits(run, reason)

    run.await_status("phase", "Failed")

    status = run.status()
    assert status["reason"] == "StartDeadlineExceeded"
    assert reason in status["message"]
    assert run.row()["attempt"] == 1
    assert "fault" not in status["attempts"][0]
    run.await_no_pod_at_work()


def test_a_secret_that_comes_late(ground: Ground) -> None:
    document = ground.manifest("one", "plain")
    document["spec"]["model"]["apiKeySecretRef"] = {"name": "late", "key": "api-key"}
    run = ground.apply(document)
    check_waits(run, "ContainerConfig")
    assert "late" in run.status()["message"]

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late"}}
    ground.cluster.create({**secret, "stringData": {"api-key": "sk-late"}}, ground.namespace)

    check_succeeds_at_once(run)


def test_a_prompt_that_comes_late(ground: Ground) -> None:
    document = ground.manifest("one", "plain")
    del document["spec"]["prompt"]
    document["spec"]["promptFrom"] = {"configMapKeyRef": {"name": "late", "key": "prompt"}}
    run = ground.apply(document)
    run.await_status("reason", "ContainerConfig")
    assert run.status()["phase"] == "Pending"
    assert run.pods() == []

    late = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
    ground.cluster.create({**late, "data": {"prompt": "Do the work."}}, ground.namespace)

    check_succeeds_at_once(run)


def test_a_quota_that_is_raised(ground: Ground) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    ground.cluster.create({**quota, "spec": {"hard": {"pods": "0"}}}, ground.namespace)
    ground.cluster.wait("resourcequota/few", "jsonpath={.status.hard.pods}=0", ground.namespace)
    run = ground.start("plain")
    check_waits(run, "QuotaExceeded")
    assert run.pods() == []

    ground.cluster.kubectl("delete", "resourcequota", "few", "-n", ground.namespace)

    check_succeeds_at_once(run)
