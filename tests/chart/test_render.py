"""What the charts install."""

from __future__ import annotations

import json

import pytest
import yaml
from helm_python.chart import Chart
from helm_python.errors import HelmError
from tests.chart.render import CHARTS, ROOT, render


def of_kind(items: list[dict], kind: str) -> list[dict]:
    return [item for item in items if item["kind"] == kind]


def render_all(release: str, values: dict | None = None) -> set[tuple[str, str]]:
    """Kind and name of what a release installs for the whole cluster."""
    loaded = Chart.load(CHARTS / "agentrun")
    rendered = loaded.render(values, name=release, namespace=release)
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    items = [item for text in texts for item in yaml.safe_load_all(text) if item]
    return {
        (item["kind"], item["metadata"]["name"])
        for item in items
        if "namespace" not in item["metadata"]
    }


def test_the_crd_chart_is_the_crds_kept_on_uninstall() -> None:
    rendered = render("agentrun-crds")
    files = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    for crd in rendered:
        assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert sorted(rendered, key=lambda crd: crd["metadata"]["name"]) == files


def test_the_operator_reads_no_secrets_and_has_no_wildcards() -> None:
    (role,) = [
        role
        for role in of_kind(render("agentrun"), "ClusterRole")
        if role["metadata"]["name"] == "agentrun-operator"
    ]
    for rule in role["rules"]:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        if "secrets" in rule["resources"]:
            assert sorted(rule["verbs"]) == ["create", "delete"]


def test_starting_a_run_does_not_grant_approving_it() -> None:
    roles = {role["metadata"]["name"]: role for role in of_kind(render("agentrun"), "ClusterRole")}
    editor = [
        verb
        for rule in roles["agentrun-editor"]["rules"]
        if "approvals" in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert set(editor) == {"get", "list", "watch"}
    approver = [verb for rule in roles["agentrun-approver"]["rules"] for verb in rule["verbs"]]
    assert "approve" in approver


def test_the_operator_pod_is_restricted() -> None:
    (deployment,) = of_kind(render("agentrun"), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"] + pod["initContainers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "value" not in next(env for env in container["env"] if env["name"] == "AGENTRUN_DSN")


def test_the_administrators_policy_reaches_the_operator_and_restarts_it() -> None:
    def rendered(policy: dict) -> tuple[str, str]:
        items = render("agentrun", {"policy": policy})
        (config,) = of_kind(items, "ConfigMap")
        (deployment,) = of_kind(items, "Deployment")
        annotations = deployment["spec"]["template"]["metadata"]["annotations"]
        return config["data"]["policy.json"], annotations["checksum/config"]

    text, checksum = rendered({"images": ["registry.example/*"]})
    assert json.loads(text) == {"images": ["registry.example/*"]}
    assert checksum != rendered({})[1]


def test_the_operator_replaces_itself_and_never_runs_twice() -> None:
    (deployment,) = of_kind(render("agentrun"), "Deployment")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_policies_name_the_operators_own_service_account() -> None:
    policies = of_kind(
        render("agentrun", {"serviceAccount": {"name": "op"}}), "ValidatingAdmissionPolicy"
    )
    text = yaml.safe_dump(policies)
    assert "system:serviceaccount:agentrun:op" in text


def test_a_second_installation_brings_nothing_that_the_first_has_already() -> None:
    first = render_all("agentrun")
    second = render_all("other", {"shared": {"install": False}, "installation": "other"})
    assert first & second == set()


def test_the_operator_of_a_second_installation_may_ask_as_well() -> None:
    other = "system:serviceaccount:other:op"
    (policy,) = of_kind(
        render("agentrun", {"shared": {"otherOperators": [other]}}), "ValidatingAdmissionPolicy"
    )
    who = policy["spec"]["validations"][0]["expression"]
    mine = "system:serviceaccount:agentrun:agentrun-operator"
    assert who == f'request.operation != \'CREATE\' || variables.me in ["{mine}","{other}"]'


@pytest.mark.parametrize(
    "values",
    [
        {"imagee": {}},
        {"image": {"repository": ""}},
        {"image": {"repository": "x", "digest": "latest"}},
        {"approvals": {"acceptUnverified": "yes"}},
        {"policy": {"imagess": []}},
        {"shared": {"otherOperators": ["' || true || '"]}},
        {"policy": {"images": "registry.example/*"}},
    ],
)
def test_wrong_values_are_refused(values: dict) -> None:
    with pytest.raises(HelmError):
        render("agentrun", values)


def test_a_digest_wins_over_the_tag() -> None:
    digest = "sha256:" + "a" * 64
    (deployment,) = of_kind(
        render("agentrun", {"image": {"repository": "r/a", "tag": "t", "digest": digest}}),
        "Deployment",
    )
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"r/a@{digest}"


def test_an_approval_that_is_being_deleted_takes_no_decision() -> None:
    """It was accepted, and nobody acted upon it: the question is asked anew by another object."""
    (policy,) = of_kind(render("agentrun"), "ValidatingAdmissionPolicy")
    rules = [rule["expression"] for rule in policy["spec"]["validations"]]
    assert "!variables.decides || !has(oldObject.metadata.deletionTimestamp)" in rules
