"""A person decides with kubectl, and who that was is what the API server knows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.chaos.harness import oracle
from tests.cluster.harness import CommandFailed, Kube
from tests.cluster.runs import PATIENCE
from tests.cluster.stage import Ground


def patch(who: Kube, ground: Ground, name: str, **spec: Any) -> str:
    """`kubectl patch approval`, as README has it."""
    change = json.dumps({"spec": spec})
    return who.kubectl(
        "patch", "approval", name, "-n", ground.namespace, "--type=merge", "-p", change
    )


def approval(ground: Ground, name: str) -> dict[str, Any]:
    return ground.cluster.get("approval", name, ground.namespace)


def refused(who: Kube, ground: Ground, name: str, why: str, **spec: Any) -> None:
    """The API server refuses the change, and says why."""
    with pytest.raises(CommandFailed, match=why):
        patch(who, ground, name, **spec)


def test_approved_by_whom_the_api_server_says(ground: Ground) -> None:
    run, name = ground.asking()
    run.await_no_pod_at_work()
    assert run.charges() == []
    erin = ground.user("erin", "agentrun-approver")

    patch(erin, ground, name, decision="Approve", decidedBy="somebody-else")
    run.await_condition("Succeeded")

    decided = approval(ground, name)
    assert decided["spec"]["decidedBy"] == "erin"
    assert decided["status"]["state"] == "Approved"
    assert decided["status"]["consumedByAttempt"] == 2
    assert len(run.charges()) == 1
    row = run.row()
    assert (row["attempt"], row["app_faults"], row["infra_faults"]) == (2, 0, 0)
    header, line = ground.cluster.kubectl("get", "appr", "-n", ground.namespace).splitlines()
    assert header.split() == ["NAME", "RUN", "SCOPE", "TOOL", "STATE", "BY", "EXPIRES", "AGE"]
    assert line.split()[:6] == [name, "one", "Tool", "ops.charge", "Approved", "erin"]
    refused(erin, ground, name, "immutable|once|closed|change", decision="Deny")
    refused(erin, ground, name, "immutable|once|closed|change", decidedBy="frank")
    oracle.check_record(run.trail())
    oracle.check_effects(run.trail())


def test_denied_the_model_is_told_and_nothing_is_done(ground: Ground) -> None:
    run, name = ground.asking()
    erin = ground.user("erin", "agentrun-approver")

    patch(erin, ground, name, decision="Deny", decisionReason="not on my watch")
    run.await_condition("Succeeded")

    assert run.charges() == []
    assert "not on my watch" in oracle.messages(run.trail().state).decode()
    assert approval(ground, name)["status"]["state"] == "Denied"
    oracle.check_record(run.trail())


def test_who_may_not_decide(ground: Ground) -> None:
    run, name = ground.asking()
    editor = ground.user("ed", "agentrun-editor")
    refused(editor, ground, name, "[Ff]orbidden", decision="Approve")
    patcher = ground.patcher("pat")
    refused(patcher, ground, name, "does not hold the verb approve", decision="Approve")
    refused(patcher, ground, name, "does not hold the verb approve", decision="Deny")

    erin = ground.user("erin", "agentrun-approver")
    refused(erin, ground, name, "nvalid|immutable", reason="harmless")
    content = {"argumentsJSON": '{"amount":1}'}
    refused(erin, ground, name, "nvalid|immutable", decision="Approve", content=content)
    forged = approval(ground, name) | {"metadata": {"name": "forged"}}
    with pytest.raises(CommandFailed, match="only the operator creates Approvals"):
        ground.cluster.create(forged, ground.namespace)
    forged["spec"] |= {"decision": "Approve", "decidedBy": "erin"}
    with pytest.raises(CommandFailed, match="cannot be created already decided"):
        ground.cluster.create(forged, ground.namespace)

    ground.cluster.kubectl("delete", "approval", name, "-n", ground.namespace)
    ground.cluster.wait(f"approval/{name}", "create", ground.namespace, PATIENCE)
    assert run.status()["phase"] == "Suspended"
    assert run.charges() == []
    assert "decision" not in approval(ground, name)["spec"]
