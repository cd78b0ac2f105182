"""Checks across lists, which the CRD's rules cannot make: names, kinds, graphs, prices."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.api.manifests import OPS, graph, manifest, prompt_spec, refusal, servers

from agentrun.api import AgentRun, Pricing
from agentrun.api.tasks import TaskSpec
from agentrun.api.validation import AdminPolicy, check_spec, validate_manifest
from agentrun.api.validation.tasks import find_cycle

SRE = {"name": "sre"}
MODEL = {"name": "m"}


def problems(**spec: Any) -> tuple[str, ...]:
    run = AgentRun.model_validate(manifest(**spec))
    return check_spec(run, pricing={}, command_servers_allowed=False)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"agents": [SRE]},
            "prompt, promptFrom, tasks, goal, planFrom, swarm, forkFrom; found none",
        ),
        (prompt_spec(goal="g"), "found prompt and goal"),
        ({"prompt": "p", "model": MODEL}, "spec.agents: at least one agent is needed"),
        (prompt_spec(agents=[SRE, {"name": "b"}]), "spec.agent: needed, because"),
        (prompt_spec(agent="nobody"), "spec.agent: no agent is named nobody"),
        (prompt_spec(agents=[SRE, SRE], agent="sre"), "spec.agents: the name sre is used more"),
        (prompt_spec(planOnly=True), "spec.planOnly: only with goal"),
        (prompt_spec(coordinator={}), "spec.coordinator: only with goal"),
        (
            {"goal": "g", "agents": [SRE], "model": MODEL, "agent": "sre"},
            "spec.agent: only with prompt",
        ),
        ({"prompt": "p", "agents": [SRE]}, "spec.agents[0].model: no model; set spec.model.name"),
        (
            prompt_spec(model={"name": "m", "bedrock": {"region": "r"}}),
            "bedrock: only with provider",
        ),
        (
            prompt_spec(model={"name": "m", "vertex": {"region": "r", "project": "p"}}),
            "vertex: only with provider",
        ),
        (prompt_spec(agents=[{**SRE, "delegates": ["b"]}]), "delegates: no agent is named b"),
        (prompt_spec(agents=[{**SRE, "delegates": ["sre"]}]), "cannot be its own delegate"),
        (
            prompt_spec(
                agents=[
                    {
                        **SRE,
                        "instructions": "x",
                        "instructionsFrom": {"configMapKeyRef": {"name": "a", "key": "b"}},
                    }
                ]
            ),
            "spec.agents[0]: give one of instructions and instructionsFrom",
        ),
        (
            prompt_spec(agents=[{**SRE, "thinkingTokens": 2000, "temperature": "0.2"}]),
            "spec.agents[0].temperature: not with thinkingTokens",
        ),
        (
            prompt_spec(agents=[{**SRE, "tools": ["ops.*"]}]),
            "spec.agents[0].tools[0]: no tool server is named ops",
        ),
        (
            prompt_spec(agents=[{**SRE, "outputSchema": {"type": "objekt"}}]),
            "spec.agents[0].outputSchema: no valid JSON Schema at type",
        ),
        (
            {"swarm": {"entry": "b"}, "agents": [SRE], "model": MODEL},
            "spec.swarm: give exactly one of prompt and promptFrom",
        ),
        (
            {"swarm": {"entry": "b", "prompt": "p"}, "agents": [SRE], "model": MODEL},
            "spec.swarm.entry: no agent is named b",
        ),
        ({"planFrom": {}}, "spec.planFrom: give exactly one of configMapKeyRef and agentRunRef"),
    ],
)
def test_modes_and_agents(spec: dict[str, Any], message: str) -> None:
    assert any(message in problem for problem in problems(**spec)), problems(**spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            servers({"name": "a"}),
            "spec.toolServers[0]: give exactly one of url, image, command and workspace; found none",
        ),
        (servers({"name": "a", "url": "http://x", "image": "y"}), "found url and image"),
        (servers(OPS, OPS), "spec.toolServers: the name ops is used more than once"),
        (servers({"name": "a", "command": ["x"]}), "spec.toolServers[0].command: child processes"),
        (
            servers({"name": "w", "workspace": {}}, {"name": "i", "image": "x"}),
            "workspace and image together are refused",
        ),
        (
            servers({"name": "w", "workspace": {}}, {"name": "v", "workspace": {}}),
            "more than one workspace",
        ),
        (servers({**OPS, "port": 80}), "spec.toolServers[0].port: only with image"),
        (servers({**OPS, "env": [{"name": "A"}]}), "env: only with image or command"),
        (
            servers(
                {
                    "name": "i",
                    "image": "x",
                    "headersFrom": [{"name": "A", "secretKeyRef": {"name": "a", "key": "b"}}],
                }
            ),
            "headersFrom: only with url",
        ),
        (
            servers(
                {
                    **OPS,
                    "headersFrom": [
                        {"name": n, "secretKeyRef": {"name": "a", "key": "b"}} for n in ("A", "a")
                    ],
                }
            ),
            "headersFrom: a is given more than once",
        ),
        (
            servers({"name": "i", "image": "x", "env": [{"name": "A"}, {"name": "A"}]}),
            "env: A is given more than once",
        ),
        (
            servers(
                {
                    "name": "i",
                    "image": "x",
                    "env": [
                        {
                            "name": "A",
                            "value": "v",
                            "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}},
                        }
                    ],
                }
            ),
            "env[0]: give one of value and valueFrom",
        ),
        (
            servers({"name": "i", "image": "x", "env": [{"name": "A", "valueFrom": {}}]}),
            "env[0].valueFrom: give one of",
        ),
        (
            servers(OPS, toolPolicies=[{"tools": ["db.*"]}]),
            "spec.toolPolicies[0].tools[0]: no tool server is named db",
        ),
        (
            servers(OPS, toolPolicies=[{"tools": ["ops.*"], "onUnknown": "Verify"}]),
            "verifyWith: goes with onUnknown Verify",
        ),
        (
            servers(OPS, toolPolicies=[{"tools": ["ops.*"], "verifyWith": "ops.x"}]),
            "verifyWith: goes with onUnknown Verify",
        ),
        (
            servers(
                OPS,
                toolPolicies=[{"tools": ["ops.a"], "onUnknown": "Verify", "verifyWith": "db.x"}],
            ),
            "verifyWith: no tool server is named db",
        ),
        (
            servers(
                OPS,
                toolPolicies=[{"tools": ["ops.*"], "onUnknown": "Verify", "verifyWith": "ops.x"}],
            ),
            "verifyWith: is itself one of the tools",
        ),
    ],
)
def test_tool_servers_and_policies(spec: dict[str, Any], message: str) -> None:
    assert any(message in problem for problem in problems(**spec)), problems(**spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (graph({"name": "a"}, {"name": "a"}), "spec.tasks: the name a is used more than once"),
        (graph({"name": "a", "agent": "b"}), "spec.tasks[0].agent: no agent is named b"),
        (graph({"name": "a"}, agents=[SRE, {"name": "b"}]), "spec.tasks[0].agent: needed"),
        (graph({"name": "a", "dependsOn": ["b"]}), "spec.tasks[0].dependsOn: no task is named b"),
        (graph({"name": "a"}, {"name": "b", "dependsOn": ["a", "a"]}), "a is named more than once"),
        (graph({"name": "a", "dependsOn": ["a"]}), "dependencies form a cycle: a -> a"),
        (
            graph(
                {"name": "a", "dependsOn": ["b"]},
                {"name": "b", "dependsOn": ["c"]},
                {"name": "c", "dependsOn": ["a"]},
            ),
            "dependencies form a cycle: ",
        ),
        (
            graph({"name": "a", "requires": {"tools": ["ops.x"]}}),
            "spec.tasks[0].requires.tools: no tool server is named ops",
        ),
        (
            graph({"name": "a"}, approvals={"tasks": ["b"]}),
            "spec.approvals.tasks: no task is named b",
        ),
        (
            graph({"name": "a"}, approvals={"tasks": ["a"], "rounds": True}),
            "spec.approvals: give one of rounds and tasks",
        ),
        (graph({"name": "a"}, approvals={"plan": True}), "spec.approvals.plan: only with goal"),
    ],
)
def test_a_task_graph_that_cannot_run_is_refused_by_its_field(
    spec: dict[str, Any], message: str
) -> None:
    assert any(message in problem for problem in problems(**spec)), problems(**spec)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {
                "checkpoint": {"enabled": False},
                "toolPolicies": [{"tools": ["ops.*"], "approval": "Always"}],
            },
            "spec.checkpoint.enabled: false cannot be combined with approvals",
        ),
        (
            {"checkpoint": {"enabled": False}, "agents": [{**SRE, "askHuman": True}]},
            "spec.checkpoint.enabled: false cannot be combined with approvals",
        ),
        (
            {"checkpoint": {"enabled": False}, "sessionId": "s"},
            "spec.checkpoint.enabled: false cannot be combined with sessionId",
        ),
        (
            {
                "checkpoint": {"enabled": False},
                "toolPolicies": [{"tools": ["ops.*"], "onUnknown": "Fail"}],
            },
            "spec.checkpoint.enabled: false cannot be combined with onUnknown",
        ),
        (
            {
                "checkpoint": {"redaction": {"enabled": True}},
                "toolPolicies": [{"tools": ["ops.*"], "approval": "Always"}],
            },
            "spec.checkpoint.redaction: cannot be combined with approvals",
        ),
        (
            {"pod": {"labels": {"app.kubernetes.io/name": "x"}}},
            "spec.pod.labels: app.kubernetes.io/name has a reserved prefix",
        ),
        (
            {"pod": {"annotations": {"agentrun.dev/fence": "9"}}},
            "spec.pod.annotations: agentrun.dev/fence has a reserved prefix",
        ),
    ],
)
def test_settings_that_exclude_each_other_are_refused(more: dict[str, Any], message: str) -> None:
    found = problems(**servers(OPS, **more))
    assert any(message in problem for problem in found), found


def test_h36_a_cost_budget_needs_the_price_of_every_model() -> None:
    spec = prompt_spec(
        limits={"costUSD": "5"},
        agents=[SRE, {"name": "b", "model": {"name": "small"}}],
        agent="sre",
    )
    priced = Pricing(input_per_m_tok="3", output_per_m_tok="15")

    def with_table(*models: str) -> str:
        return refusal(manifest(**spec), policy=AdminPolicy(pricing=dict.fromkeys(models, priced)))

    assert "spec.limits.costUSD: the price of model claude-sonnet-4-6" in with_table()
    assert "the price of model small is not known" in with_table("claude-sonnet-4-6")
    both = AdminPolicy(pricing=dict.fromkeys(("claude-sonnet-4-6", "small"), priced))
    assert validate_manifest(manifest(**spec), policy=both)
    own = {**spec, "pricing": {"inputPerMTok": "3", "outputPerMTok": "15"}}
    assert validate_manifest(manifest(**own))
    assert validate_manifest(manifest(**{**spec, "limits": {"tokens": 5}}))


def test_h57_three_hundred_tasks_with_fifty_dependencies_are_checked_here() -> None:
    tasks = [
        {"name": f"t{n}", "dependsOn": [f"t{m}" for m in range(max(0, n - 50), n)]}
        for n in range(300)
    ]
    assert problems(**graph(*tasks)) == ()
    tasks[0]["dependsOn"] = ["t299"]
    assert any("cycle" in problem for problem in problems(**graph(*tasks)))


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.sets(st.integers(0, 6), max_size=4)),
        max_size=7,
        unique_by=lambda task: task[0],
    )
)
def test_cycles_are_found_exactly_when_there_are_some(tasks: list[tuple[int, set[int]]]) -> None:
    specs = [
        TaskSpec(name=f"t{n}", prompt="p", depends_on=tuple(f"t{m}" for m in sorted(needs)))
        for n, needs in tasks
    ]
    edges = {spec.name: set(spec.depends_on) for spec in specs}
    cycle = find_cycle(specs)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert len(cycle) > 1
        assert all(after in edges[before] for before, after in pairwise(cycle))
        return
    done: set[str] = set()
    while ready := {name for name, needs in edges.items() if needs & set(edges) <= done} - done:
        done |= ready
    assert done == set(edges)
