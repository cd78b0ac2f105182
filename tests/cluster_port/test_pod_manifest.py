"""The Pod of an attempt, checked as a table: what is always there, and what a user cannot change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.cluster_port.scenes import manifest, pod_for, secret_for

from agentrun.api import AgentRun
from agentrun.cluster.kube.containers import SOCKET, PodDefaults
from agentrun.cluster.kube.pod_manifest import claim_manifest, pod_manifest
from agentrun.cluster.secret_manifest import secret_manifest

UID = "1a2b3c4d-0000-4000-8000-000000000000"
DEFAULTS = PodDefaults(version="1.2.3")

WORKSPACE = {"name": "workspace", "workspace": {"sizeLimit": "64Mi"}}
IMAGE_SERVER = {
    "name": "db",
    "image": "registry.example/db:1",
    "port": 9000,
    "args": ["--read-only"],
    "env": [
        {"name": "MODE", "value": "ro"},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
    ],
    "resources": {"limits": {"memory": "1Gi"}},
    "imagePullPolicy": "Always",
}
REMOTE = {
    "name": "my-ops",
    "url": "https://ops.example/mcp",
    "headersFrom": [
        {"name": "Authorization", "secretKeyRef": {"name": "ops", "key": "token"}},
        {"name": "X-Tenant", "secretKeyRef": {"name": "ops", "key": "tenant"}},
    ],
}


def run(name: str = "incident-42", uid: str = UID, **spec: Any) -> AgentRun:
    body = manifest(name, **spec)
    body["metadata"] |= {"namespace": "team", "uid": uid}
    return AgentRun.model_validate(body)


def render(more: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return pod_manifest(pod_for(run(**spec), 2, **(more or {})), DEFAULTS)


def containers(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from pod["spec"]["containers"]
    yield from pod["spec"].get("initContainers", ())


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))
    return {v["name"]: v.get("valueFrom", v.get("value")) for v in container["env"]}


def runner_of(pod: dict[str, Any]) -> dict[str, Any]:
    (runner,) = pod["spec"]["containers"]
    return dict(runner)


EVERYTHING: dict[str, Any] = {
    "toolServers": [WORKSPACE, IMAGE_SERVER, REMOTE],
    "model": {
        "name": "m",
        "apiKeySecretRef": {"name": "anthropic", "key": "api-key"},
        "caBundle": {"configMapKeyRef": {"name": "ca", "key": "ca.crt"}},
    },
}
SPECS = [{}, {"toolServers": [WORKSPACE]}, {"toolServers": [IMAGE_SERVER]}, EVERYTHING]


@pytest.mark.parametrize("spec", SPECS)
def test_every_container_is_restricted(spec: dict[str, Any]) -> None:
    pod = render(**spec)
    for container in containers(pod):
        security = container["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["runAsUser"] == 65532
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {"mountPath": "/tmp", "name": f"tmp-{container['name']}"} in container[
            "volumeMounts"
        ]
        assert container["resources"]["limits"]["memory"]
    kinds = {kind for volume in pod["spec"]["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"secret", "emptyDir", "configMap", "persistentVolumeClaim"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostAliases"} & set(pod["spec"])


@pytest.mark.parametrize("spec", SPECS)
def test_no_token_and_no_restart(spec: dict[str, Any]) -> None:
    pod = render(**spec)["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["restartPolicy"] == "Never"
    assert "serviceAccountName" not in pod


def test_the_runner_knows_who_it_is() -> None:
    runner = runner_of(render(more={"run_uid": "first-object"}))
    env = env_of(runner)
    assert runner["name"] == "runner"
    assert runner["args"] == ["runner"]
    assert "command" not in runner
    assert env["AGENTRUN_RUN_UID"] == "first-object"
    assert env["AGENTRUN_FENCE"] == "12"
    assert env["AGENTRUN_POD_UID"] == {
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}
    }
    assert env["AGENTRUN_NODE"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
    assert env["AGENTRUN_GRACE_SECONDS"] == "30"
    assert "AGENTRUN_WORKSPACE_SOCKET" not in env
    assert "ANTHROPIC_API_KEY" not in env


def test_the_attempts_secret_is_files_for_the_group() -> None:
    pod = render()
    assert pod["spec"]["securityContext"]["fsGroup"] == 65532
    volume = pod["spec"]["volumes"][0]
    assert volume["secret"] == {"secretName": "incident-42-attempt-2", "defaultMode": 0o440}
    runner = runner_of(pod)
    mount = next(m for m in runner["volumeMounts"] if m["name"] == volume["name"])
    assert mount == {
        "name": volume["name"],
        "mountPath": env_of(runner)["AGENTRUN_SECRET_DIR"],
        "readOnly": True,
    }


def test_secrets_of_the_user_are_references() -> None:
    env = env_of(runner_of(render(**EVERYTHING)))
    assert env["ANTHROPIC_API_KEY"] == {"secretKeyRef": {"name": "anthropic", "key": "api-key"}}
    assert env["AGENTRUN_HEADER_MY_OPS_0"] == {"secretKeyRef": {"name": "ops", "key": "token"}}
    assert env["AGENTRUN_HEADER_MY_OPS_1"] == {"secretKeyRef": {"name": "ops", "key": "tenant"}}


def test_each_key_of_an_agents_own_model_has_a_variable() -> None:
    own = {"apiKeySecretRef": {"name": "other", "key": "api-key"}}
    agents = [{"name": "one"}, {"name": "two", "model": own}]
    env = env_of(runner_of(render(**{**EVERYTHING, "agents": agents, "agent": "one"})))
    keys = {name: source for name, source in env.items() if "API_KEY" in name}
    assert len(keys) == 2
    assert {"secretKeyRef": {"name": "other", "key": "api-key"}} in keys.values()


def test_a_ca_bundle_is_mounted_where_its_variable_says() -> None:
    pod = render(**EVERYTHING)
    runner = runner_of(pod)
    path = env_of(runner)["AGENTRUN_CA_BUNDLE"]
    mount = next(m for m in runner["volumeMounts"] if path.startswith(m["mountPath"] + "/"))
    volume = next(v for v in pod["spec"]["volumes"] if v["name"] == mount["name"])
    assert mount["readOnly"] is True
    assert volume["configMap"]["name"] == "ca"
    assert path == f"{mount['mountPath']}/{volume['configMap']['items'][0]['path']}"


def test_h32_the_workspace_is_a_native_sidecar_without_secrets() -> None:
    """H32, H44"""
    pod = render(**{**EVERYTHING, "toolServers": [WORKSPACE, REMOTE]})
    (sidecar,) = pod["spec"]["initContainers"]
    assert sidecar["name"] == "workspace"
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["command"][-2:] == ["-m", "agentrun.workspace"]
    assert sidecar["args"] == [
        *("--socket", SOCKET, "--root", "/workspace", "--size-limit", str(64 * 2**20)),
    ]
    assert sidecar["env"] == [{"name": "HOME", "value": "/workspace"}]
    mounted = {mount["name"] for mount in sidecar["volumeMounts"]}
    assert mounted == {"workspace-socket", "workspace", "tmp-workspace"}
    runner = runner_of(pod)
    shared = mounted & {mount["name"] for mount in runner["volumeMounts"]}
    assert shared == {"workspace-socket"}
    assert env_of(runner)["AGENTRUN_WORKSPACE_SOCKET"] == SOCKET


@pytest.mark.parametrize(
    ("more", "image", "expected"),
    [
        ({}, "", "registry.example/agentrun:test"),
        ({"workspace_image": "registry.example/ws:1"}, "", "registry.example/ws:1"),
        ({"workspace_image": ""}, "", "registry.example/agentrun:test"),
        ({}, "registry.example/mine:1", "registry.example/mine:1"),
    ],
)
def test_the_workspaces_image(more: dict[str, Any], image: str, expected: str) -> None:
    server = {"name": "workspace", "workspace": {"image": image}}
    fields = {"workspace_image": "registry.example/agentrun:test"} | more
    pod = pod_for(run(toolServers=[server]), 2)
    rendered = pod_manifest(replace(pod, **fields), DEFAULTS)
    assert rendered["spec"]["initContainers"][0]["image"] == expected


def test_the_workspaces_files_have_a_limit_above_the_servers_own() -> None:
    """H31: the server answers with an error before the kubelet ends the attempt."""
    pod = render(toolServers=[WORKSPACE])
    volume = next(v for v in pod["spec"]["volumes"] if v["name"] == "workspace")
    assert int(volume["emptyDir"]["sizeLimit"]) > 64 * 2**20


def test_a_volume_belongs_to_the_run_and_not_to_the_attempt() -> None:
    server = {"name": "workspace", "workspace": {"persistence": "Volume"}}
    first, second = (pod_for(run(toolServers=[server]), n) for n in (1, 2))
    claim = claim_manifest(first, DEFAULTS)
    assert claim == claim_manifest(second, DEFAULTS)
    assert claim is not None
    assert claim["metadata"]["ownerReferences"][0]["uid"] == UID
    pod = pod_manifest(second, DEFAULTS)
    volume = next(v for v in pod["spec"]["volumes"] if v["name"] == "workspace")
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert "--durable" in pod["spec"]["initContainers"][0]["args"]
    assert claim_manifest(pod_for(run(toolServers=[WORKSPACE])), DEFAULTS) is None
    assert claim_manifest(pod_for(run()), DEFAULTS) is None


def test_h32_an_image_server_is_a_native_sidecar() -> None:
    """H32"""
    pod = render(toolServers=[IMAGE_SERVER])
    (sidecar,) = pod["spec"]["initContainers"]
    assert sidecar["name"] == "tool-db"
    assert sidecar["image"] == "registry.example/db:1"
    assert sidecar["imagePullPolicy"] == "Always"
    assert sidecar["restartPolicy"] == "Always"
    assert sidecar["args"] == ["--read-only"]
    assert sidecar["ports"] == [{"containerPort": 9000, "protocol": "TCP"}]
    assert sidecar["resources"] == {"limits": {"memory": "1Gi"}}
    assert env_of(sidecar) == {
        "HOME": "/tmp",
        "MODE": "ro",
        "PASSWORD": {"secretKeyRef": {"name": "db", "key": "password"}},
    }
    assert {mount["name"] for mount in sidecar["volumeMounts"]} == {"tmp-tool-db"}


def test_a_server_name_that_is_no_container_name() -> None:
    names = ["-", "--a", "9"]
    servers = [{"name": name, "image": "i:1", "port": 9000 + n} for n, name in enumerate(names)]
    pod = render(toolServers=servers)
    sidecars = [container["name"] for container in pod["spec"]["initContainers"]]
    assert sidecars == ["server-0", "server-1", "tool-9"]


def test_cloud_identity_is_kept_from_sidecars() -> None:
    """H48"""
    annotations = render(toolServers=[WORKSPACE, IMAGE_SERVER])["metadata"]["annotations"]
    assert annotations["azure.workload.identity/skip-containers"] == "workspace;tool-db"
    assert annotations["eks.amazonaws.com/skip-containers"] == "workspace,tool-db"
    assert not any("skip" in key for key in render()["metadata"]["annotations"])


def test_names_carry_the_uid() -> None:
    """H22, H23: no StatefulSet's pod and no predecessor's pod has this name."""
    old = pod_for(run("postgres"), 1).key.name
    new = pod_for(run("postgres", uid="ffffffff-0000-4000-8000-000000000000"), 1).key.name
    assert old == "postgres-1a2b3-1"
    assert new == "postgres-fffff-1"


def test_the_pod_is_owned_by_the_object_that_exists_now() -> None:
    (owner,) = render(more={"run_uid": "first-object"})["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "name": "incident-42",
        "uid": UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_labels_and_annotations_are_ours_whatever_the_user_wants() -> None:
    """H51"""
    ours = render()["metadata"]
    greedy = {
        "labels": {
            **dict.fromkeys(ours["labels"], "stolen"),
            "app.kubernetes.io/name": "payments",
            "kubernetes.io/x": "y",
            "kueue.x-k8s.io/queue-name": "team",
            "plain": "yes",
        },
        "annotations": {
            **dict.fromkeys(ours["annotations"], "stolen"),
            "azure.workload.identity/skip-containers": "nothing",
            "eks.amazonaws.com/skip-containers": "nothing",
            "note": "kept",
        },
    }
    pod = render(pod=greedy, toolServers=[WORKSPACE])["metadata"]
    assert ours["labels"].items() <= pod["labels"].items()
    assert ours["annotations"].items() <= pod["annotations"].items()
    added = set(pod["labels"]) - set(ours["labels"])
    assert added == {"kueue.x-k8s.io/queue-name", "plain"}
    assert pod["annotations"]["note"] == "kept"
    assert pod["annotations"]["azure.workload.identity/skip-containers"] == "workspace"
    assert pod["annotations"]["eks.amazonaws.com/skip-containers"] == "workspace"


def test_the_labels_and_annotations_that_others_look_for() -> None:
    metadata = render()["metadata"]
    assert metadata["labels"] == {
        "agentrun.dev/run": "incident-42",
        "agentrun.dev/run-uid": UID,
        "agentrun.dev/attempt": "2",
        "app.kubernetes.io/name": "agentrun",
        "app.kubernetes.io/instance": "incident-42",
        "app.kubernetes.io/version": "1.2.3",
        "app.kubernetes.io/component": "runner",
        "app.kubernetes.io/part-of": "agentrun",
        "app.kubernetes.io/managed-by": "agentrun-operator",
    }
    assert metadata["annotations"] == {
        "kubectl.kubernetes.io/default-container": "runner",
        "agentrun.dev/fence": "12",
        "agentrun.dev/installation": "contract",
    }


def test_environment_of_the_user_never_replaces_ours() -> None:
    wanted = [
        {"name": "HTTPS_PROXY", "value": "http://proxy"},
        {"name": "AGENTRUN_FENCE", "value": "99"},
        {"name": "AGENTRUN_SECRET_DIR", "value": "/elsewhere"},
        {"name": "ANTHROPIC_API_KEY", "value": "stolen"},
        {"name": "CA", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
    ]
    env = env_of(runner_of(render(**{**EVERYTHING, "pod": {"env": wanted}})))
    assert env["HTTPS_PROXY"] == "http://proxy"
    assert env["AGENTRUN_FENCE"] == "12"
    assert env["AGENTRUN_SECRET_DIR"] != "/elsewhere"
    assert "secretKeyRef" in env["ANTHROPIC_API_KEY"]
    assert env["CA"] == {"configMapKeyRef": {"name": "c", "key": "k"}}


def test_the_installations_environment_stands_between_ours_and_the_users() -> None:
    settings = {"AGENTRUN_LOG_LEVEL": "DEBUG", "AGENTRUN_FENCE": "99", "OTEL_X": "installation"}
    wanted = [{"name": "OTEL_X", "value": "user"}, {"name": "OTEL_Y", "value": "user"}]
    pod = pod_for(run(pod={"env": wanted}), 2)
    env = env_of(runner_of(pod_manifest(pod, PodDefaults(runner_env=settings))))
    assert env["AGENTRUN_LOG_LEVEL"] == "DEBUG"
    assert env["AGENTRUN_FENCE"] == "12"
    assert (env["OTEL_X"], env["OTEL_Y"]) == ("installation", "user")


def test_secret_environment_of_a_child_server_reaches_the_runner() -> None:
    server = {
        "name": "fx-1",
        "command": ["python", "server.py"],
        "env": [
            {"name": "PLAIN", "value": "in the spec"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "fx", "key": "t"}}},
            {"name": "RATES", "valueFrom": {"configMapKeyRef": {"name": "fx", "key": "r"}}},
        ],
    }
    env = env_of(runner_of(render(toolServers=[server])))
    assert env["AGENTRUN_ENV_FX_1_TOKEN"] == {"secretKeyRef": {"name": "fx", "key": "t"}}
    assert env["AGENTRUN_ENV_FX_1_RATES"] == {"configMapKeyRef": {"name": "fx", "key": "r"}}
    assert not any(name.endswith("_PLAIN") for name in env)


def test_placement_is_the_users_with_our_two_tolerations() -> None:
    mine = {"key": "gpu", "operator": "Exists"}
    forever = {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}
    settings = {
        "tolerations": [mine, forever],
        "nodeSelector": {"disk": "ssd"},
        "priorityClassName": "low",
        "runtimeClassName": "gvisor",
        "serviceAccountName": "bedrock",
        "imagePullSecrets": [{"name": "registry"}],
        "terminationGracePeriodSeconds": 90,
        "resources": {"limits": {"memory": "2Gi"}},
    }
    pod = render(pod=settings)["spec"]
    ours = [
        {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute",
         "tolerationSeconds": 30}
        for taint in ("not-ready", "unreachable")
    ]  # fmt: skip
    assert pod["tolerations"] == [*ours, mine]
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["priorityClassName"] == "low"
    assert pod["runtimeClassName"] == "gvisor"
    assert pod["serviceAccountName"] == "bedrock"
    assert pod["automountServiceAccountToken"] is False
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["terminationGracePeriodSeconds"] == 90
    assert pod["containers"][0]["resources"] == {"limits": {"memory": "2Gi"}}


def test_a_silent_node_is_avoided_beside_the_users_affinity() -> None:
    user = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"x": 1}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
        },
        "podAffinity": {"y": 1},
    }
    assert render(pod={"affinity": user})["spec"]["affinity"] == user
    assert "affinity" not in render()["spec"]
    affinity = render(more={"avoid_node": "n1"}, pod={"affinity": user})["spec"]["affinity"]
    assert affinity["podAffinity"] == {"y": 1}
    node = affinity["nodeAffinity"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert node[required] == user["nodeAffinity"][required]
    mine, ours = node["preferredDuringSchedulingIgnoredDuringExecution"]
    assert mine == {"weight": 1, "preference": {}}
    (field,) = ours["preference"]["matchFields"]
    assert field == {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}


def test_the_secret_is_immutable_and_owned() -> None:
    """H50"""
    secret = secret_manifest(secret_for(run(), "incident-42-1a2b3-1-zx81"), DEFAULTS.version)
    assert secret["immutable"] is True
    assert secret["stringData"] == {"dsn": "postgresql://db/agentrun", "secret": "s3cret"}
    assert secret["metadata"]["ownerReferences"][0]["uid"] == UID
    assert secret["metadata"]["labels"]["agentrun.dev/attempt"] == "1"
    assert secret["metadata"]["annotations"]["agentrun.dev/fence"] == "1"


def test_a_secret_prints_nothing_secret() -> None:
    text = repr(secret_for(run(), "x"))
    assert "s3cret" not in text
    assert "postgresql" not in text


def test_the_same_attempt_is_the_same_pod() -> None:
    assert render(**EVERYTHING) == render(**EVERYTHING)
