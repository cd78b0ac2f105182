"""What a real API server makes of the CRDs, asked through kubectl with strict validation.

Unit tests show that the schema says what the models say; only the API server shows that it accepts
the schema (structure, cost of the rules) and enforces it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.harness import ApiServer, CommandFailed, api_server
from tests.unit.api.manifests import OPS, graph, manifest, prompt_spec, released_spec

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(600)]

CRDS = Path(__file__).parents[2] / "crds"

APPROVAL: dict[str, Any] = {
    "apiVersion": "agentrun.dev/v1alpha1",
    "kind": "Approval",
    "metadata": {"name": "incident-42-apr-1a2b3c4d5e"},
    "spec": {
        "runRef": {"name": "incident-42", "uid": "0ca1dd98-65d7-4167-b270-08eef506fa9f"},
        "scope": "Tool",
        "boundary": "look/1/3/0",
        "contentHash": "0" * 64,
        "content": {"tool": "ops.restart", "argumentsJSON": '{"service":"checkout"}'},
        "reason": "restarts production",
        "policy": {"users": [], "groups": [], "notUser": ""},
        "requestedAt": "2026-11-30T14:00:00.123456Z",
        "expiresAt": "2126-12-30T14:00:00Z",
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    with api_server() as running:
        running.kubectl("create", "-f", str(CRDS))
        for name in ("agentruns", "approvals"):
            running.wait(f"crd/{name}.agentrun.dev", "condition=Established")
        yield running


@pytest.fixture
def namespace(server: ApiServer) -> Iterator[str]:
    with server.namespace() as name:
        yield name


def run(name: str = "incident-42", **spec: Any) -> dict[str, Any]:
    return manifest(name, **spec)


def refusal(server: ApiServer, namespace: str, obj: dict[str, Any]) -> str:
    with pytest.raises(CommandFailed) as caught:
        server.create(obj, namespace)
    return caught.value.output


def patch(server: ApiServer, namespace: str, target: str, spec: dict[str, Any]) -> str:
    """An empty string where the patch was accepted, otherwise the refusal."""
    text = json.dumps({"spec": spec})
    done = server.try_kubectl(
        "patch", *target.split("/"), "-n", namespace, "--type=merge", "-p", text
    )
    return "" if done.returncode == 0 else done.stderr


def set_status(server: ApiServer, namespace: str, target: str, status: dict[str, Any]) -> None:
    server.kubectl(
        "patch",
        *target.split("/"),
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )


def test_the_server_finds_nothing_wrong_with_the_schemas(server: ApiServer) -> None:
    for name in ("agentruns", "approvals"):
        conditions = server.get("crd", f"{name}.agentrun.dev")["status"]["conditions"]
        states = {condition["type"]: condition["status"] for condition in conditions}
        assert states["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in states


def test_defaults_are_filled_in_as_the_models_do(server: ApiServer, namespace: str) -> None:
    server.create(run(**prompt_spec()), namespace)
    assert server.get("arun", "incident-42", namespace)["spec"] == prompt_spec(
        agents=[{"name": "sre", "maxTurns": 20, "maxOutputTokens": 4096}],
        model={"name": "claude-sonnet-4-6", "provider": "Anthropic", "maxRetries": 5},
        approvals={"onTimeout": "Deny"},
        checkpoint={
            "enabled": True,
            "position": "AfterTools",
            "onSaveFailure": "Continue",
            "journal": True,
        },
        limits={
            "retries": 6,
            "infraRetries": 20,
            "startDeadlineSeconds": 600,
            "onExceeded": "Suspend",
            "maxConcurrency": 4,
        },
        lease={"ttlSeconds": 60, "stallSeconds": 900, "onUnreachable": "TakeOver"},
        retention={"contentSeconds": 86400, "auditSeconds": 31536000},
        pod={"terminationGracePeriodSeconds": 30},
    )


def test_an_agents_model_is_not_filled_in_over_the_runs(server: ApiServer, namespace: str) -> None:
    server.create(run(**prompt_spec(agents=[{"name": "sre", "model": {"name": "x"}}])), namespace)
    agent = server.get("arun", "incident-42", namespace)["spec"]["agents"][0]
    assert agent["model"] == {"name": "x"}


def test_everything_this_release_can_do_is_accepted(server: ApiServer, namespace: str) -> None:
    server.create(run(**released_spec()), namespace)
    stored = server.get("arun", "incident-42", namespace)["spec"]
    assert stored["pod"]["tolerations"] == released_spec()["pod"]["tolerations"]
    assert stored["agents"][0]["maxTurns"] == 30


def test_null_is_absence(server: ApiServer, namespace: str) -> None:
    server.create(run(**prompt_spec(goal=None, limits=None)), namespace)
    assert server.get("arun", "incident-42", namespace)["spec"]["limits"]["retries"] == 6


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"agents": [{"name": "a"}]}, "give exactly one of prompt, promptFrom, tasks"),
        (prompt_spec(goal="g"), "give exactly one of prompt, promptFrom, tasks"),
        (prompt_spec(promt="g"), 'unknown field "spec.promt"'),
        (prompt_spec(limits={"turns": 0}), "spec.limits.turns"),
        (prompt_spec(limits={"turns": "7"}), "spec.limits.turns"),
        (prompt_spec(limits={"costUSD": "5$"}), "spec.limits.costUSD"),
        (prompt_spec(lease={"ttlSeconds": 2}), "spec.lease.ttlSeconds"),
        (prompt_spec(lease={"onUnreachable": "x"}), "spec.lease.onUnreachable"),
        (prompt_spec(agents=[{"name": "a"}, {"name": "a"}]), "spec.agents[1]"),
        (prompt_spec(agents=[{"name": "a", "tools": ["ops"]}]), "spec.agents[0].tools[0]"),
        (prompt_spec(metadata={f"k{n}": "" for n in range(33)}), "spec.metadata"),
        (prompt_spec(toolServers=[{"name": "a"}]), "exactly one of url, image, command"),
        (prompt_spec(toolServers=[{**OPS, "image": "x"}]), "exactly one of url, image, command"),
        (prompt_spec(toolServers=[{**OPS, "name": "o" * 25}]), "spec.toolServers[0].name"),
        ({"swarm": {"entry": "a"}}, "give exactly one of prompt and promptFrom"),
        ({"planFrom": {}}, "give exactly one of configMapKeyRef and agentRunRef"),
        (prompt_spec(pod={"env": [{"name": "A", "valueFrom": {}}]}), "exactly one of secretKeyRef"),
    ],
)
def test_bad_runs_are_refused(
    server: ApiServer, namespace: str, spec: dict[str, Any], message: str
) -> None:
    assert message in refusal(server, namespace, run(**spec))


@pytest.mark.parametrize("name", ["a" * 47, "a.b"])
def test_names_that_would_not_fit_a_pod_are_refused(
    server: ApiServer, namespace: str, name: str
) -> None:
    assert "the name of an AgentRun" in refusal(server, namespace, run(name, **prompt_spec()))
    server.create(run("a" * 46, **prompt_spec()), namespace)


def test_a_run_may_ask_for_a_generated_name(server: ApiServer, namespace: str) -> None:
    server.create({**run(**prompt_spec()), "metadata": {"generateName": "incident-"}}, namespace)
    (only,) = server.select("arun", namespace)
    assert only["metadata"]["name"].startswith("incident-")


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "another"},
        {"controllerName": "x"},
        {"agents": [{"name": "sre", "maxTurns": 21}]},
        {"agents": [{"name": "sre", "outputSchema": {"type": "string"}}]},
        {"limits": {"retries": 7}},
        {"limits": {"deadlineSeconds": 60}},
        {"limits": {"onExceeded": "Fail"}},
        {"limits": None},
        {"lease": {"ttlSeconds": 61}},
        {"retention": {"contentSeconds": 0}},
        {"pod": {"affinity": {"nodeAffinity": {"x": "b"}}}},
        {"pod": {"tolerations": [{"key": "b"}]}},
        {"sessionId": ""},
        {"requestedBy": "mallory"},
        {"prompt": None, "goal": "g"},
    ],
    ids=str,
)
def test_the_spec_is_immutable(server: ApiServer, namespace: str, change: dict[str, Any]) -> None:
    spec = prompt_spec(
        agents=[{"name": "sre", "outputSchema": {"type": "object"}}],
        pod={"affinity": {"nodeAffinity": {"x": "a"}}, "tolerations": [{"key": "a"}]},
        limits={"retries": 9},
    )
    server.create(run(**spec), namespace)
    assert "the spec is immutable" in patch(server, namespace, "arun/incident-42", change)


def test_what_may_change(server: ApiServer, namespace: str) -> None:
    server.create(run(**prompt_spec()), namespace)
    budgets = {"turns": 5, "tokens": 6, "costUSD": "7", "activeDeadlineSeconds": 8}
    for change in (
        {"suspend": True},
        {"suspend": None},
        {"ttlSecondsAfterFinished": 0},
        {"limits": budgets},
        {"limits": dict.fromkeys(budgets)},
        {"cancel": True},
    ):
        assert patch(server, namespace, "arun/incident-42", change) == ""


@pytest.mark.parametrize("back", [False, None])
def test_cancel_latches(server: ApiServer, namespace: str, back: bool | None) -> None:
    server.create(run(**prompt_spec(cancel=True)), namespace)
    assert "cancel cannot be taken back" in patch(
        server, namespace, "arun/incident-42", {"cancel": back}
    )


def test_status_is_the_subresources_alone(server: ApiServer, namespace: str) -> None:
    server.create({**run(**prompt_spec()), "status": {"attempt": 7}}, namespace)
    assert "status" not in server.get("arun", "incident-42", namespace)
    set_status(server, namespace, "arun/incident-42", {"attempt": 2, "usage": {"turns": 7}})
    assert server.get("arun", "incident-42", namespace)["status"]["phase"] == "Pending"


def test_h56_status_lists_are_bounded(server: ApiServer, namespace: str) -> None:
    server.create(run(**prompt_spec()), namespace)
    attempts = [{"attempt": n, "fence": n} for n in range(1, 12)]
    with pytest.raises(CommandFailed, match="must have at most 10 items"):
        set_status(server, namespace, "arun/incident-42", {"attempts": attempts})


def test_h57_the_largest_graph_is_created_and_changed(server: ApiServer, namespace: str) -> None:
    tasks = [
        {
            "name": f"task-{n:03d}",
            "prompt": "p" * 2500,
            "dependsOn": [f"task-{m:03d}" for m in range(max(0, n - 50), n)],
        }
        for n in range(300)
    ]
    server.create(run(**graph(*tasks)), namespace)
    assert patch(server, namespace, "arun/incident-42", {"suspend": True}) == ""
    changed = copy.deepcopy(tasks)
    changed[299]["prompt"] = "q" * 2500
    path = server.kubeconfig.parent / "changed.json"
    path.write_text(json.dumps({"spec": {"tasks": changed}}))
    done = server.try_kubectl(
        "patch", "arun", "incident-42", "-n", namespace, "--type=merge", f"--patch-file={path}"
    )
    assert "the spec is immutable" in done.stderr


def test_h58_a_long_prompt_is_refused_with_advice(server: ApiServer, namespace: str) -> None:
    message = refusal(server, namespace, run(**prompt_spec(prompt="p" * 300_000)))
    assert "name it in promptFrom" in message
    assert "ppp" not in message
    agents = [{"name": "sre", "instructions": "p" * 300_000}]
    message = refusal(server, namespace, run(**prompt_spec(agents=agents)))
    assert "name it in instructionsFrom" in message
    server.create(run(**prompt_spec(prompt="p" * 262_144)), namespace)


def test_columns_of_runs(server: ApiServer, namespace: str) -> None:
    server.create(run(**prompt_spec()), namespace)
    status = {
        "phase": "Running",
        "attempt": 2,
        "usage": {"turns": 7, "totalTokens": 1234, "costUSD": "0.12"},
        "nodeName": "node-1",
        "checkpoint": {"seq": 21},
        "message": "working",
    }
    set_status(server, namespace, "arun/incident-42", status)
    narrow = server.kubectl("get", "arun", "-n", namespace).splitlines()
    assert narrow[0].split() == [
        "NAME",
        "PHASE",
        "REASON",
        "ATTEMPT",
        "TURNS",
        "TOKENS",
        "COST",
        "AGE",
    ]
    assert narrow[1].split()[:-1] == ["incident-42", "Running", "2", "7", "1234", "0.12"]
    wide = server.kubectl("get", "arun", "-n", namespace, "-o", "wide").splitlines()
    assert wide[0].split()[-3:] == ["NODE", "SEQ", "MESSAGE"]
    assert "incident-42" in server.kubectl("get", "agents", "-n", namespace)


def test_fields_are_explained(server: ApiServer) -> None:
    text = server.kubectl("explain", "agentrun.spec.limits.costUSD")
    assert "US dollars of the whole run" in text


@pytest.fixture
def approval(server: ApiServer, namespace: str) -> str:
    server.create(APPROVAL, namespace)
    return f"appr/{APPROVAL['metadata']['name']}"


def test_a_new_approval_is_shown_as_pending(
    server: ApiServer, namespace: str, approval: str
) -> None:
    state = server.kubectl("get", approval, "-n", namespace, "-o", "jsonpath={.status.state}")
    assert state == "Pending"
    assert "Pending" in server.kubectl("get", "appr", "-n", namespace)


def test_h59_expiry_of_the_next_century_is_readable(
    server: ApiServer, namespace: str, approval: str
) -> None:
    header, row = server.kubectl("get", "appr", "-n", namespace).splitlines()
    assert header.split() == ["NAME", "RUN", "SCOPE", "TOOL", "STATE", "BY", "EXPIRES", "AGE"]
    assert "2126-12-30T14:00:00Z" in row
    assert "Pending" in row
    assert "<invalid>" not in row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decision": "Perhaps"}, "Unsupported value"),
        ({"decision": "UseResult", "answer": "x"}, "does not fit the scope"),
        ({"decision": "Approve", "answer": "x"}, "an answer is needed with Answer and UseResult"),
        ({"decidedBy": "mallory"}, "are set together with decision"),
        ({"decisionReason": "because"}, "are set together with decision"),
    ],
)
def test_decisions_that_make_no_sense(
    server: ApiServer, namespace: str, approval: str, change: dict[str, Any], message: str
) -> None:
    assert message in patch(server, namespace, approval, change)


@pytest.mark.parametrize(
    "change",
    [
        {"content": {"argumentsJSON": "{}"}},
        {"content": None},
        {"scope": "Plan"},
        {"expiresAt": None},
        {"expiresAt": "2226-12-30T14:00:00Z"},
        {"policy": {"notUser": "nobody"}},
        {"contentHash": "1" * 64},
        {"decision": "Approve", "boundary": "look/1/3/1"},
    ],
    ids=str,
)
def test_h38_what_is_reviewed_never_changes(
    server: ApiServer, namespace: str, approval: str, change: dict[str, Any]
) -> None:
    assert "only the decision fields" in patch(server, namespace, approval, change)


@pytest.mark.parametrize(
    "change",
    [
        {"decidedBy": "mallory"},
        {"decisionReason": "another"},
        {"decision": "Deny"},
        {"decision": None},
        {"decision": None, "decidedBy": None, "decisionReason": None},
    ],
    ids=str,
)
def test_h39_a_decision_is_final(
    server: ApiServer, namespace: str, approval: str, change: dict[str, Any]
) -> None:
    decided = {"decision": "Approve", "decidedBy": "alice", "decisionReason": "fine"}
    assert patch(server, namespace, approval, decided) == ""
    assert patch(server, namespace, approval, decided) == ""
    assert "a decision is final" in patch(server, namespace, approval, change)


def test_h37_an_approval_is_not_created_decided(server: ApiServer, namespace: str) -> None:
    decided = copy.deepcopy(APPROVAL)
    decided["spec"]["decision"] = "Approve"
    assert "cannot be created already decided" in refusal(server, namespace, decided)


@pytest.mark.parametrize("state", ["Closed", "Expired", "Stale"])
def test_h72_a_closed_approval_takes_no_decision(
    server: ApiServer, namespace: str, approval: str, state: str
) -> None:
    set_status(server, namespace, approval, {"state": state})
    assert "closed and takes no decision" in patch(
        server, namespace, approval, {"decision": "Deny"}
    )


def test_a_pending_approval_is_decided_and_then_consumed(
    server: ApiServer, namespace: str, approval: str
) -> None:
    set_status(server, namespace, approval, {"state": "Pending"})
    assert patch(server, namespace, approval, {"decision": "Deny"}) == ""
    set_status(server, namespace, approval, {"state": "Denied", "consumedByAttempt": 2})


@pytest.mark.parametrize(
    ("scope", "change"),
    [
        ("Question", {"decision": "Answer", "answer": "yes"}),
        ("Question", {"decision": "Deny"}),
        ("Outcome", {"decision": "UseResult", "answer": "done"}),
        ("Outcome", {"decision": "RunAgain"}),
        ("Outcome", {"decision": "Fail"}),
        ("Plan", {"decision": "Approve"}),
    ],
)
def test_decisions_that_fit_their_scope(
    server: ApiServer, namespace: str, scope: str, change: dict[str, Any]
) -> None:
    asked = copy.deepcopy(APPROVAL)
    asked["spec"]["scope"] = scope
    server.create(asked, namespace)
    assert patch(server, namespace, f"appr/{APPROVAL['metadata']['name']}", change) == ""


def test_an_answer_is_needed_where_one_is_asked_for(server: ApiServer, namespace: str) -> None:
    asked = copy.deepcopy(APPROVAL)
    asked["spec"]["scope"] = "Question"
    server.create(asked, namespace)
    target = f"appr/{APPROVAL['metadata']['name']}"
    assert "an answer is needed" in patch(server, namespace, target, {"decision": "Answer"})


def test_the_crds_apply_over_themselves(server: ApiServer) -> None:
    for path in CRDS.iterdir():
        server.apply(yaml.safe_load(path.read_text(encoding="utf-8")))
