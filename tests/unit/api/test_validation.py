"""Bad manifests, and the one message that names the field."""

from __future__ import annotations

import copy
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.api.manifests import graph, manifest, prompt_spec, refusal, released_spec, servers

from agentrun.api import AgentRun
from agentrun.api.validation import AdminPolicy, validate_manifest
from agentrun.errors import InvalidSpec

SRE = {"name": "sre"}


MODEL = {"name": "m"}


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "a manifest is a mapping"),
        ([], "a manifest is a mapping"),
        ({}, "apiVersion: must be agentrun.dev/v1alpha1"),
        ({**manifest(), "apiVersion": "v1"}, "apiVersion: must be agentrun.dev/v1alpha1"),
        ({**manifest(), "kind": "Approval"}, "kind: must be AgentRun"),
        ({"apiVersion": "agentrun.dev/v1alpha1", "kind": "AgentRun"}, "metadata: required"),
        ({**manifest(**prompt_spec()), "metadata": {}}, "metadata.name: required"),
        ({**manifest(**prompt_spec()), 1: 2}, "[1]: every name must be a string"),
        (
            {**manifest(**prompt_spec()), "metadata": {"name": "a", "lables": {}}},
            "metadata.lables: unknown field; did you mean labels?",
        ),
        ({**manifest(**prompt_spec()), "extra": 1}, "extra: unknown field"),
        (manifest("a.b", **prompt_spec()), "metadata.name: at most 46"),
        (manifest("a" * 47, **prompt_spec()), "metadata.name: at most 46"),
        (
            {**manifest(**prompt_spec()), "metadata": {"generateName": "a" * 42}},
            "metadata.generateName: at most 41",
        ),
    ],
)
def test_what_is_no_agentrun_is_refused_by_its_field(obj: object, message: str) -> None:
    assert message in refusal(obj)


@pytest.mark.parametrize("prefix", ["a", "a-", "a" * 41])
def test_a_generated_name_is_enough(prefix: str) -> None:
    obj = {**manifest(**prompt_spec()), "metadata": {"generateName": prefix}}
    assert validate_manifest(obj).metadata.generate_name == prefix


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"promt": "x"}, "spec.promt: unknown field; did you mean prompt?"),
        ({"xyzzy": "x"}, "spec.xyzzy: unknown field"),
        (
            {"agents": [{"name": "a", "max_turns": 3}]},
            "spec.agents[0].max_turns: unknown field; did you mean maxTurns?",
        ),
        ({"limits": {"costUsd": "5"}}, "spec.limits.costUsd: unknown field; did you mean costUSD?"),
        ({"limits": {"costUSD": 5}}, "spec.limits.costUSD: must be a string; put it in quotes"),
        ({"limits": {"costUSD": "5$"}}, "spec.limits.costUSD: must be a decimal"),
        ({"limits": {"turns": "7"}}, "spec.limits.turns: must be a valid integer"),
        ({"limits": {"turns": 0}}, "spec.limits.turns: must be greater than or equal to 1"),
        ({"limits": 5}, "spec.limits: must be a mapping"),
        ({"suspend": "yes"}, "spec.suspend: must be a valid boolean"),
        ({"lease": {"ttlSeconds": 2}}, "spec.lease.ttlSeconds: must be greater than"),
        ({"lease": {"onUnreachable": "x"}}, "'TakeOver' or 'WaitForPod'"),
        ({"agents": [{}]}, "spec.agents[0].name: required"),
        (
            {"agents": [{"name": "a", "tools": ["ops"]}]},
            "spec.agents[0].tools[0]: must be server.tool",
        ),
        ({"agents": [{"name": "a", "temperature": "1.5"}]}, 'must be a decimal from "0" to "1"'),
        ({"agents": [{"name": f"a{n}"} for n in range(33)]}, "spec.agents: at most 32 items"),
        ({"metadata": {"A b": "x"}}, "spec.metadata.A b: must be"),
        (
            {"toolServers": [{"name": "Ops", "url": "http://x"}]},
            "spec.toolServers[0].name: must be lower",
        ),
        (
            {"toolServers": [{"name": "o" * 25, "url": "http://x"}]},
            "spec.toolServers[0].name: at most 24",
        ),
        ({"toolServers": [{"name": "o", "url": "ftp://x"}]}, "must be an http or https address"),
        ({"runId": "a/b"}, "spec.runId: must be letters, digits"),
        ({"prompt": date(2026, 1, 1)}, "spec.prompt: must be a string; put it in quotes"),
        ({"agents": "sre"}, "spec.agents: must be a list"),
        ({"prompt": "\ud800"}, "spec.prompt: must be Unicode text; it holds half a character"),
        ({"prompt": ""}, "spec.prompt: must have at least 1 character"),
        ({"pod": {"affinity": {"a": "x" * 40_000}}}, "spec.pod.affinity: holds 4"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_must_be(part: dict[str, Any], message: str) -> None:
    assert message in refusal(manifest(**prompt_spec(**part)))


@pytest.mark.parametrize("length", [262_145, 300_000, 3_000_000])
def test_h58_a_long_prompt_is_sent_to_a_config_map(length: int) -> None:
    message = refusal(manifest(**prompt_spec(prompt="p" * length)))
    assert message.startswith("spec.prompt: at most 262144 characters")
    assert "ConfigMap" in message
    assert "promptFrom" in message
    assert "ppp" not in message
    agents = [{**SRE, "instructions": "p" * length}]
    assert "instructionsFrom" in refusal(manifest(**prompt_spec(agents=agents)))


def test_h58_many_prompts_that_are_too_much_together() -> None:
    tasks = [{"name": f"t{n}", "prompt": "p" * 60_000} for n in range(20)]
    message = refusal(manifest(**graph(*tasks)))
    assert message.startswith("spec: holds 1200")
    assert "promptFrom" in message


def test_the_longest_inline_prompt_is_accepted() -> None:
    assert validate_manifest(manifest(**prompt_spec(prompt="p" * 262_144)))


def test_null_is_absence_as_for_the_api_server() -> None:
    run = validate_manifest(manifest(**prompt_spec(goal=None, limits=None, pod={"image": None})))
    assert run.spec.limits.retries == 6
    schema = {"default": None}
    raw = AgentRun.model_validate(manifest(**prompt_spec(agents=[{**SRE, "outputSchema": schema}])))
    assert raw.spec.agents[0].output_schema == schema


def test_messages_name_fields_and_never_values() -> None:
    secret = "hunter2"
    for part in (
        {"prompt": [secret]},
        {"requestedBy": {"x": secret}},
        {"limits": {"costUSD": secret}},
        {"toolServers": [{"name": "o", "url": f"ftp://{secret}"}]},
    ):
        assert secret not in refusal(manifest(**prompt_spec(**part)))
    url = f"https://user:{secret}@x"
    policy = AdminPolicy(urls=("https://ok/*",))
    message = refusal(manifest(**servers({"name": "o", "url": url})), policy=policy)
    assert message == "spec.toolServers[0].url: not allowed by the administrator"


def test_a_pasted_key_is_not_repeated_in_full() -> None:
    message = refusal(manifest(**prompt_spec(**{"k" * 1_000_000: 1})))
    assert message == f"spec.{'k' * 64}…: unknown field"


def test_several_problems_are_named_at_once_and_counted_beyond_five() -> None:
    message = refusal(manifest(**prompt_spec(**{f"unknown{n}": 1 for n in range(7)})))
    assert message.count("unknown field") == 5
    assert message.endswith("; and 2 more")


def test_child_processes_are_for_local_mode_or_where_allowed() -> None:
    obj = manifest(**servers({"name": "fx", "command": ["python", "server.py"]}))
    assert "spec.toolServers[0].command" in refusal(obj)
    assert validate_manifest(obj, local=True)
    assert validate_manifest(obj, policy=AdminPolicy(command_servers=True))


def test_h44_workspace_beside_an_image_is_the_administrators_decision() -> None:
    obj = manifest(**servers({"name": "w", "workspace": {}}, {"name": "i", "image": "x"}))
    assert "together" in refusal(obj)
    assert validate_manifest(obj, policy=AdminPolicy(workspace_with_images=True))


@pytest.mark.parametrize(
    ("part", "policy", "field"),
    [
        ({"pod": {"image": "evil/x"}}, {"images": ("good/*",)}, "spec.pod.image: evil/x is not"),
        (
            {"toolServers": [{"name": "i", "image": "evil/x"}]},
            {"images": ("good/*",)},
            "spec.toolServers[0].image",
        ),
        (
            {"toolServers": [{"name": "w", "workspace": {"image": "evil/x"}}]},
            {"images": ("good/*",)},
            "spec.toolServers[0].workspace.image",
        ),
        ({"model": {"name": "m", "baseURL": "https://evil"}}, {"urls": ()}, "spec.model.baseURL"),
        (
            {"agents": [{**SRE, "model": {"baseURL": "https://evil"}}]},
            {"urls": ()},
            "spec.agents[0].model.baseURL",
        ),
        ({"pod": {"serviceAccountName": "root"}}, {}, "spec.pod.serviceAccountName: root"),
        (
            {"pod": {"priorityClassName": "high"}},
            {"priority_classes": ()},
            "spec.pod.priorityClassName",
        ),
        (
            {"pod": {"tolerations": [{"operator": "Exists"}]}},
            {"toleration_keys": ("gpu",)},
            "spec.pod.tolerations: * is not",
        ),
        (
            {"pod": {"labels": {"app": "payments"}}},
            {"pod_labels": ("kueue.x-k8s.io/*",)},
            "spec.pod.labels: app is not",
        ),
        ({"pod": {"annotations": {"a": "b"}}}, {"pod_annotations": ()}, "spec.pod.annotations"),
        ({"pod": {"env": [{"name": "LD_PRELOAD", "value": "x"}]}}, {}, "spec.pod.env: LD_PRELOAD"),
    ],
)
def test_what_the_administrator_does_not_allow(
    part: dict[str, Any], policy: dict[str, Any], field: str
) -> None:
    message = refusal(manifest(**prompt_spec(**part)), policy=AdminPolicy(**policy))
    assert field in message
    assert "allowed by the administrator" in message


def test_duplicate_environment_of_the_pod() -> None:
    env = [{"name": "NO_PROXY", "value": "a"}, {"name": "NO_PROXY", "value": "b"}]
    assert "NO_PROXY is given more than once" in refusal(manifest(**prompt_spec(pod={"env": env})))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths(value: Any, prefix: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        inner = [paths(item, (*prefix, key)) for key, item in value.items()]
    elif isinstance(value, list):
        inner = [paths(item, (*prefix, n)) for n, item in enumerate(value)]
    else:
        inner = []
    return [prefix, *(path for found in inner for path in found)]


ALL_PATHS = [path for path in paths(manifest(**released_spec())) if path]


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.sampled_from(ALL_PATHS), json_values)
def test_whatever_is_written_the_answer_is_a_run_or_invalid_spec(
    path: tuple[str | int, ...], value: Any
) -> None:
    obj: Any = copy.deepcopy(manifest(**released_spec()))
    node = obj
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    try:
        run = validate_manifest(obj)
    except InvalidSpec:
        return
    again = json.loads(json.dumps(run.to_dict()))
    assert validate_manifest(again).spec.to_dict() == run.spec.to_dict()
