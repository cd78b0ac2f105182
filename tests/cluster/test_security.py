"""What runner and operator may do, seen from outside of the program."""

from __future__ import annotations

import base64
from typing import Any

import psycopg
import pytest
from tests.cluster import record
from tests.cluster.deploy import NAMESPACE
from tests.cluster.harness import eventually
from tests.cluster.stage import Ground, Stage

from agentrun.store.roles import runner_role

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
RUNNER_FUNCTIONS = {
    "append",
    "append_group",
    "claim",
    "get_blobs",
    "put_blob",
    "release",
    "renew",
    "restore",
    "snapshot",
}


def mounts(pod: dict[str, Any]) -> list[str]:
    spec = pod["spec"]
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    return [mount["mountPath"] for one in containers for mount in one.get("volumeMounts", [])]


def test_a_runner_pod_is_restricted_and_has_no_token(ground: Ground) -> None:
    """The namespace enforces `restricted`, so that the pod's being there is the proof."""
    run = ground.start("held", workspace=True)
    run.await_held()
    (pod,) = run.pods()

    assert pod["spec"]["automountServiceAccountToken"] is False
    assert TOKEN not in mounts(pod)
    inside = ("exec", "-n", ground.namespace, pod["metadata"]["name"], "-c")
    for container in ("runner", "workspace"):
        look = ground.cluster.try_kubectl(*inside, container, "--", "ls", TOKEN)
        assert "No such file" in look.stderr
        write = ground.cluster.try_kubectl(*inside, container, "--", "touch", "/etc/x")
        assert "Read-only file system" in write.stderr
    secret = "/run/agentrun/secret"
    assert "dsn" in ground.cluster.kubectl(*inside, "runner", "--", "ls", secret)
    hidden = ground.cluster.try_kubectl(*inside, "workspace", "--", "ls", secret)
    assert "No such file" in hidden.stderr
    environment = ground.cluster.kubectl(*inside, "workspace", "--", "env")
    assert "sk-of-nobody" not in environment
    run.open_gate()
    run.await_condition("Succeeded")


def test_a_runners_login_can_only_run_its_own_functions(ground: Ground) -> None:
    run = ground.start("held")
    run.await_held()
    (pod,) = run.pods()
    volume = next(v for v in pod["spec"]["volumes"] if v["name"] == "attempt")
    secret = ground.cluster.get("secret", volume["secret"]["secretName"], ground.namespace)
    dsn = base64.b64decode(secret["data"]["dsn"]).decode()
    login = psycopg.conninfo.conninfo_to_dict(dsn)
    uid = ground.cluster.get("namespace", ground.namespace)["metadata"]["uid"]
    assert secret["immutable"]
    assert login["user"] == runner_role(uid)

    ours = psycopg.conninfo.conninfo_to_dict(run.dsn)
    host = {"host": ours["host"], "port": ours["port"]}
    here = psycopg.conninfo.make_conninfo("", **{**login, **host})
    for statement in (
        "SELECT * FROM agentrun.run",
        "SELECT * FROM agentrun.commit",
        "INSERT INTO agentrun.blob SELECT",
        "SELECT agentrun.revoke_v1('a', 'b', 'c')",
        "CREATE TABLE public.mine (x int)",
        "CREATE TEMP TABLE mine (x int)",
        "CREATE ROLE mine",
    ):
        with pytest.raises(psycopg.Error, match=r"permission denied|does not exist"):
            record.rows(here, statement)
    allowed = record.rows(
        here,
        "SELECT regexp_replace(p.proname, '_v[0-9]+$', '') AS name FROM pg_catalog.pg_proc p"
        " JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'agentrun'"
        " WHERE pg_catalog.has_function_privilege(p.oid, 'EXECUTE')",
    )
    assert {row["name"] for row in allowed} == RUNNER_FUNCTIONS
    run.open_gate()
    run.await_condition("Succeeded")
    name = secret["metadata"]["name"]
    eventually(
        lambda: ground.cluster.find("secret", name, ground.namespace) is None,
        within=60,
        what="the attempt's Secret is gone",
    )


def test_the_operators_pod_is_restricted_and_its_account_reads_no_secrets(stage: Stage) -> None:
    labels = stage.cluster.get("namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = stage.operator.pod()
    assert pod["spec"]["nodeName"] == stage.cluster.node("control")
    account = stage.cluster.as_user(f"system:serviceaccount:{NAMESPACE}:agentrun-operator")
    for verb in ("get", "list", "watch"):
        assert account.try_kubectl("auth", "can-i", verb, "secrets", "-A").stdout.strip() == "no"
    assert account.try_kubectl("auth", "can-i", "create", "secrets", "-A").stdout.strip() == "yes"


def test_an_installation_checks_itself(stage: Stage) -> None:
    where = ("-n", NAMESPACE, "deployment/agentrun-operator", "-c", "operator")
    told = stage.cluster.kubectl("exec", *where, "--", "agentrun", "check")
    assert told.splitlines() == ["database and schema: ok", "custom resources and rights: ok"]
