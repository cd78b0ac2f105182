"""The CRDs: byte for byte what the models give, bounded, described, with the promised defaults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.api.manifests import manifest, prompt_spec

from agentrun.api import AgentRun, AgentRunSpec, ApprovalSpec, OnUnknown
from agentrun.api.crd import crds, render
from agentrun.api.crd.__main__ import main
from agentrun.api.spec import MUTABLE_FIELDS, MUTABLE_LIMITS

FOLDER = Path(__file__).parents[3] / "crds"

AGENTRUN, APPROVAL = crds()

DEFAULTS = {
    "agents[].maxTurns": 20,
    "agents[].maxOutputTokens": 4096,
    "agents[].context.strategy": "None",
    "tasks[].dependencyPayload": "Output",
    "tasks[].priority": "Normal",
    "tasks[].memoryScope": "Dependencies",
    "model.provider": "Anthropic",
    "model.maxRetries": 5,
    "toolServers[].timeoutSeconds": 60,
    "toolServers[].imagePullPolicy": "IfNotPresent",
    "toolServers[].workspace.persistence": "Record",
    "toolServers[].workspace.sizeLimit": "64Mi",
    "toolPolicies[].approval": "Never",
    "toolPolicies[].onUnknown": "Rerun",
    "approvals": {},
    "approvals.onTimeout": "Deny",
    "checkpoint": {},
    "checkpoint.enabled": True,
    "checkpoint.position": "AfterTools",
    "checkpoint.onSaveFailure": "Continue",
    "checkpoint.journal": True,
    "limits": {},
    "limits.retries": 6,
    "limits.infraRetries": 20,
    "limits.startDeadlineSeconds": 600,
    "limits.onExceeded": "Suspend",
    "limits.maxConcurrency": 4,
    "lease": {},
    "lease.ttlSeconds": 60,
    "lease.stallSeconds": 900,
    "lease.onUnreachable": "TakeOver",
    "retention": {},
    "retention.contentSeconds": 86400,
    "retention.auditSeconds": 31536000,
    "pod": {},
    "pod.terminationGracePeriodSeconds": 30,
}
"""The defaults that users rely on, exactly. ``{}`` makes the API server fill in what is inside."""

OPAQUE = {
    "agents[].outputSchema",
    "toolServers[].resources",
    "toolServers[].workspace.resources",
    "pod.resources",
    "pod.tolerations[]",
    "pod.affinity",
}

Node = dict[str, Any]


def version(crd: Node) -> Node:
    (only,) = crd["spec"]["versions"]
    return only


def schema(crd: Node, part: str) -> Node:
    return version(crd)["schema"]["openAPIV3Schema"]["properties"][part]


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every node below ``node`` with its path."""
    for name, child in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, child
        yield from walk(child, here)
    if "items" in node:
        yield f"{path}[]", node["items"]
        yield from walk(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield f"{path}{{}}", node["additionalProperties"]
        yield from walk(node["additionalProperties"], f"{path}{{}}")


PARTS = [
    pytest.param(schema(crd, part), id=f"{crd['spec']['names']['kind']}.{part}")
    for crd in (AGENTRUN, APPROVAL)
    for part in ("spec", "status")
]


def test_files_are_what_the_models_give() -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert files == render(), "run: python -m agentrun.api.crd crds/"


def test_the_generator_writes_the_same_bytes(tmp_path: Path) -> None:
    assert main([str(tmp_path / "crds")]) == 0
    assert {
        p.name: p.read_text(encoding="utf-8") for p in (tmp_path / "crds").iterdir()
    } == render()
    assert main([]) == 2


def test_files_read_back_as_the_objects() -> None:
    assert [yaml.safe_load(text) for text in render().values()] == [AGENTRUN, APPROVAL]


@pytest.mark.parametrize("part", PARTS)
def test_every_node_is_bounded(part: Node) -> None:
    for path, node in walk(part):
        match node["type"]:
            case "string":
                assert "maxLength" in node or "enum" in node, path
            case "integer":
                assert {"minimum", "maximum"} <= set(node), path
                assert node["format"] == "int64", path
            case "array":
                assert "maxItems" in node, path
            case "object":
                closed = "properties" in node
                assert closed or "maxProperties" in node, path
            case kind:
                assert kind == "boolean", path


@pytest.mark.parametrize("part", PARTS)
def test_every_field_is_described(part: Node) -> None:
    for path, node in walk(part):
        if not path.endswith(("[]", "{}")):
            assert node.get("description", "").endswith("."), path


@pytest.mark.parametrize("part", PARTS)
def test_every_list_has_a_type_and_keys_that_exist(part: Node) -> None:
    for path, node in walk(part):
        if node["type"] != "array":
            continue
        kind = node.get("x-kubernetes-list-type")
        assert kind in ("atomic", "map", "set"), path
        for key in node.get("x-kubernetes-list-map-keys", []):
            assert kind == "map"
            assert key in node["items"]["required"], path


@pytest.mark.parametrize("part", PARTS)
def test_the_schema_is_structural(part: Node) -> None:
    for path, node in walk(part):
        assert isinstance(node["type"], str), path
        assert not {"$ref", "anyOf", "allOf", "oneOf", "nullable", "title", "const"} & set(node)
        assert not ("properties" in node and "additionalProperties" in node), path


def test_only_foreign_schemas_are_opaque() -> None:
    opaque = {
        path
        for path, node in walk(schema(AGENTRUN, "spec"))
        if node.get("x-kubernetes-preserve-unknown-fields")
    }
    assert opaque == OPAQUE
    for part in (schema(AGENTRUN, "status"), schema(APPROVAL, "spec"), schema(APPROVAL, "status")):
        assert not any("x-kubernetes-preserve-unknown-fields" in node for _, node in walk(part))


def test_defaults_are_exactly_those_of_the_interface() -> None:
    found = {p: node["default"] for p, node in walk(schema(AGENTRUN, "spec")) if "default" in node}
    assert found == DEFAULTS
    assert not any("default" in node for _, node in walk(schema(APPROVAL, "spec")))


def test_defaults_of_the_models_are_those_of_the_crd() -> None:
    """A stored object, defaulted by the API server, and a bare manifest mean the same."""
    bare = manifest(
        **prompt_spec(
            toolServers=[{"name": "w", "workspace": {}}], toolPolicies=[{"tools": ["w.*"]}]
        )
    )
    stored = manifest(**filled(bare["spec"], schema(AGENTRUN, "spec")))
    assert stored["spec"]["limits"]["retries"] == 6
    assert stored["spec"]["toolPolicies"][0]["onUnknown"] == "Rerun"
    assert AgentRun.model_validate(stored) == AgentRun.model_validate(bare)


def filled(value: Any, node: Node) -> Any:
    """What the API server stores: defaults filled in, from the outside inwards."""
    if isinstance(value, list):
        return [filled(item, node["items"]) for item in value]
    if not isinstance(value, dict) or "properties" not in node:
        return value
    given = {
        **{
            name: child["default"]
            for name, child in node["properties"].items()
            if "default" in child
        },
        **value,
    }
    return {name: filled(item, node["properties"][name]) for name, item in given.items()}


def rules_of(node: Node) -> list[Node]:
    return list(node.get("x-kubernetes-validations", []))


def test_h57_no_rule_compares_lists_with_each_other() -> None:
    """Rules under lists look at one item only; what spans lists is checked by the operator."""
    for path, node in walk(schema(AGENTRUN, "spec")):
        for rule in rules_of(node):
            assert ".exists" not in rule["rule"], path
            assert ".all(" not in rule["rule"], path
            if "[]" in path:
                assert "oldSelf" not in rule["rule"], path


def test_one_rule_holds_every_immutable_field() -> None:
    (rule,) = (
        rule["rule"]
        for rule in rules_of(schema(AGENTRUN, "spec"))
        if "oldSelf.prompt" in rule["rule"]
    )
    mutable = {AgentRunSpec.model_fields[name].alias for name in MUTABLE_FIELDS}
    assert mutable == {"suspend", "cancel", "ttlSecondsAfterFinished"}
    for field in AgentRunSpec.model_fields.values():
        assert (f"has(self.{field.alias})" in rule) is (field.alias not in mutable), field.alias
    for name in schema(AGENTRUN, "spec")["properties"]["limits"]["properties"]:
        named = f"self.limits.{name} == oldSelf.limits.{name}" in rule
        assert named is (name not in {"turns", "tokens", "costUSD", "activeDeadlineSeconds"}), name
    assert len(MUTABLE_LIMITS) == 4


def test_h39_decision_fields_stand_in_one_rule() -> None:
    fields = ("decision", "decisionReason", "answer", "decidedBy")
    final, content = (
        next(r for r in rules_of(schema(APPROVAL, "spec")) if phrase in r["message"])
        for phrase in ("final", "only the decision fields")
    )
    for field in ApprovalSpec.model_fields.values():
        alias = field.alias
        assert (f"self.{alias} == oldSelf.{alias}" in final["rule"]) is (alias in fields)
        assert (f"self.{alias} == oldSelf.{alias}" in content["rule"]) is (alias not in fields)


def test_h58_long_prompts_have_somewhere_to_go() -> None:
    spec = schema(AGENTRUN, "spec")
    assert "configMapKeyRef" in spec["properties"]["promptFrom"]["properties"]
    advice = [rule["message"] for rule in rules_of(spec) if rule.get("fieldPath") == ".prompt"]
    assert len(advice) == 1
    assert "promptFrom" in advice[0]


def test_h59_expiry_is_shown_as_a_string() -> None:
    columns = {c["name"]: c for c in version(APPROVAL)["additionalPrinterColumns"]}
    assert columns["Expires"] == {
        "name": "Expires",
        "type": "string",
        "jsonPath": ".spec.expiresAt",
    }


@pytest.mark.parametrize(
    ("crd", "names", "wide"),
    [
        (AGENTRUN, "Phase Reason Attempt Turns Tokens Cost Age", "Node Seq Message"),
        (APPROVAL, "Run Scope Tool State By Expires Age", ""),
    ],
    ids=["AgentRun", "Approval"],
)
def test_columns_show_fields_that_exist(crd: Node, names: str, wide: str) -> None:
    columns = version(crd)["additionalPrinterColumns"]
    assert [c["name"] for c in columns if not c.get("priority")] == names.split()
    assert [c["name"] for c in columns if c.get("priority")] == wide.split()
    for column in columns:
        node: Node = version(crd)["schema"]["openAPIV3Schema"]
        for step in column["jsonPath"].removeprefix(".").split("."):
            if node is version(crd)["schema"]["openAPIV3Schema"] and step == "metadata":
                break
            node = node["properties"][step]
        else:
            assert column["type"] == node["type"], column["name"]


def test_names_of_the_kinds() -> None:
    spec = AGENTRUN["spec"]
    assert (spec["group"], spec["scope"]) == ("agentrun.dev", "Namespaced")
    assert spec["names"]["shortNames"] == ["arun"]
    assert APPROVAL["spec"]["names"]["shortNames"] == ["appr"]
    for crd in (AGENTRUN, APPROVAL):
        assert crd["spec"]["names"]["categories"] == ["agents"]
        assert crd["metadata"]["name"] == f"{crd['spec']['names']['plural']}.agentrun.dev"
        assert version(crd)["subresources"] == {"status": {}}


def test_enums_are_the_models_words() -> None:
    policies = schema(AGENTRUN, "spec")["properties"]["toolPolicies"]["items"]["properties"]
    assert policies["onUnknown"]["enum"] == [word.value for word in OnUnknown]


def test_kubectl_explain_tells_what_this_release_refuses() -> None:
    properties = AGENTRUN["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    spec = properties["spec"]["properties"]
    assert spec["goal"]["description"].endswith("Not available in this release.")
    assert spec["model"]["properties"]["provider"]["description"].endswith(
        "In this release only Anthropic."
    )
    assert "release" not in spec["prompt"]["description"]
