"""What this release cannot do yet is refused, never ignored."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.unit.api.manifests import OPS, manifest, prompt_spec, released_spec

from agentrun.api import AgentRun
from agentrun.api.validation import PENDING, AdminPolicy, pending_problems, validate_manifest
from agentrun.errors import InvalidSpec

AGENT = {"name": "sre"}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("spec.runId: adoption of a record by runId is", {"runId": "incident-42"}),
    ("spec.tasks: task graphs are", {"tasks": [{"name": "look", "prompt": "p"}]}),
    ("spec.goal: goals are", {"goal": "g"}),
    ("spec.planFrom: plans are", {"planFrom": {"agentRunRef": {"name": "other"}}}),
    ("spec.swarm: swarms are", {"swarm": {"prompt": "p", "entry": "sre"}}),
    ("spec.forkFrom: forks are", {"forkFrom": {"runRef": {"name": "other"}, "seq": 17}}),
    ("spec.coordinator: coordinators are", {"goal": "g", "coordinator": {"maxTurns": 3}}),
    ("spec.planOnly: plans are", {"goal": "g", "planOnly": True}),
    ("spec.sessionId: sessions are", {"sessionId": "s"}),
    (
        "spec.agents[0].delegates: delegates are",
        {"agents": [{**AGENT, "delegates": ["b"]}, {"name": "b"}], "agent": "sre"},
    ),
    ("spec.agents[0].askHuman: questions to people are", {"agents": [{**AGENT, "askHuman": True}]}),
    (
        "spec.agents[0].outputSchema: structured results are",
        {"agents": [{**AGENT, "outputSchema": {"type": "object"}}]},
    ),
    (
        "spec.agents[0].context.strategy: context strategies other than None are",
        {"agents": [{**AGENT, "context": {"strategy": "Compact"}}]},
    ),
    (
        "spec.agents[0].context.maxTokens: context strategies are",
        {"agents": [{**AGENT, "context": {"maxTokens": 150_000}}]},
    ),
    (
        "spec.agents[0].context.keepTurns: context strategies are",
        {"agents": [{**AGENT, "context": {"keepTurns": 10}}]},
    ),
    (
        "spec.agents[0].model.provider: providers other than Anthropic are",
        {"agents": [{**AGENT, "model": {"provider": "Bedrock"}}]},
    ),
    (
        "spec.model.provider: providers other than Anthropic are",
        {"model": {"name": "m", "provider": "Vertex"}},
    ),
    (
        "spec.toolServers[0].workspace.persistence: workspace volumes are",
        {"toolServers": [{"name": "w", "workspace": {"persistence": "Volume"}}]},
    ),
    (
        "spec.toolPolicies[0].onUnknown: values other than Rerun are",
        {"toolServers": [OPS], "toolPolicies": [{"tools": ["ops.*"], "onUnknown": "Ask"}]},
    ),
    (
        "spec.toolPolicies[0].verifyWith: verifying tools are",
        {
            "toolServers": [OPS],
            "toolPolicies": [{"tools": ["ops.a"], "onUnknown": "Verify", "verifyWith": "ops.b"}],
        },
    ),
    ("spec.approvals.plan: plan gates are", {"goal": "g", "approvals": {"plan": True}}),
    ("spec.approvals.rounds: round gates are", {"approvals": {"rounds": True}}),
    ("spec.approvals.tasks: task gates are", {"approvals": {"tasks": ["*"]}}),
    (
        "spec.approvals.expiresAfterSeconds: expiring approvals are",
        {"approvals": {"expiresAfterSeconds": 60}},
    ),
    ("spec.approvals.onTimeout: values other than Deny are", {"approvals": {"onTimeout": "Fail"}}),
    (
        "spec.approvals.approvers.users: lists of approvers are",
        {"approvals": {"approvers": {"users": ["alice"]}}},
    ),
    (
        "spec.approvals.approvers.groups: lists of approvers are",
        {"approvals": {"approvers": {"groups": ["sre"]}}},
    ),
    (
        "spec.approvals.separationOfDuties: separation of duties is",
        {"approvals": {"separationOfDuties": True}},
    ),
    ("spec.checkpoint.enabled: runs without checkpoints are", {"checkpoint": {"enabled": False}}),
    (
        "spec.checkpoint.redaction.enabled: redaction is",
        {"checkpoint": {"redaction": {"enabled": True}}},
    ),
    (
        "spec.checkpoint.redaction.patterns: redaction patterns are",
        {"checkpoint": {"redaction": {"patterns": ["x+"]}}},
    ),
    (
        "spec.checkpoint.journal: records without their journal are",
        {"checkpoint": {"journal": False}},
    ),
    ("spec.retention.contentSeconds: other times are", {"retention": {"contentSeconds": 60}}),
    ("spec.retention.auditSeconds: other times are", {"retention": {"auditSeconds": 60}}),
]

MODES = {"tasks", "goal", "planFrom", "swarm", "forkFrom"}


def spec_with(part: dict[str, Any]) -> dict[str, Any]:
    spec = prompt_spec(**copy.deepcopy(part))
    if MODES & set(part):
        del spec["prompt"]
    return spec


@pytest.mark.parametrize(("message", "part"), CASES, ids=[case[0].split(":")[0] for case in CASES])
def test_a_feature_of_a_later_release_is_refused(message: str, part: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec) as caught:
        validate_manifest(manifest(**spec_with(part)))
    assert f"{message} not available in this release" in caught.value.message


@pytest.mark.parametrize(("message", "part"), CASES, ids=[case[0].split(":")[0] for case in CASES])
def test_and_is_otherwise_valid(message: str, part: dict[str, Any]) -> None:
    """Only the table stands between the feature and the user: the rest is validated already."""
    with pytest.raises(InvalidSpec) as caught:
        validate_manifest(manifest(**spec_with(part)))
    problems = caught.value.message.split("; ")
    assert all(problem.endswith("not available in this release") for problem in problems)
    assert any(problem.startswith(message) for problem in problems)


def test_every_row_is_tried() -> None:
    tried = {message.split(":")[0].replace("[0]", "[]") for message, _ in CASES}
    assert tried == {row.field for row in PENDING}


def test_everything_this_release_can_do_passes() -> None:
    run = validate_manifest(manifest(**released_spec()), policy=AdminPolicy())
    assert list(pending_problems(run.spec)) == []
    minimal = AgentRun.model_validate(manifest(**prompt_spec()))
    assert list(pending_problems(minimal.spec)) == []
