"""What kubectl says to a person who makes a mistake, and `kubectl agentrun` with the caller's rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.harness import CommandFailed
from tests.cluster.scenes import Manifest
from tests.cluster.stage import Ground, Stage

BIN = Path(sys.executable).parent


def with_spec(**changes: Any) -> Callable[[Manifest], None]:
    return lambda document: document["spec"].update(changes)


def named(name: str) -> Callable[[Manifest], None]:
    return lambda document: document["metadata"].update(name=name)


MISTAKES = {
    "unknown field": (with_spec(promt="typo"), 'unknown field "spec.promt"'),
    "two modes": (with_spec(goal="something else"), "exactly one of"),
    "long name": (named("x" * 47), "46"),
    "name with dots": (named("a.b"), "Invalid value"),
    "wrong enum": (with_spec(lease={"onUnreachable": "Panic"}), "Unsupported value"),
    "short lease": (with_spec(lease={"ttlSeconds": 1}), "greater than or equal to 3"),
}


def test_mistakes_are_refused_at_once(ground: Ground) -> None:
    for mistake, (change, says) in MISTAKES.items():
        document = ground.manifest("one", "plain")
        change(document)
        refused = ground.cluster.try_kubectl(
            "create", "-n", ground.namespace, "-f", "-", stdin=json.dumps(document)
        )
        assert refused.returncode != 0, mistake
        assert says in refused.stderr, mistake
    assert ground.cluster.select("agentruns", ground.namespace) == []


def test_what_a_run_is_does_not_change_while_it_runs(ground: Ground) -> None:
    run = ground.start("held", suspend=True)
    for change in (
        {"prompt": "Something else."},
        {"model": {"name": "another"}},
        {"limits": {"retries": 5}},
        {"requestedBy": "somebody-else"},
    ):
        with pytest.raises(CommandFailed, match="immutable"):
            run.patch(change)
    run.patch({"limits": {"turns": 50}, "ttlSecondsAfterFinished": 3600})
    run.await_status("phase", "Suspended")
    assert run.object()["spec"]["requestedBy"] == "kubernetes-admin"
    assert run.pods() == []


def test_a_run_that_cannot_be_run_as_written_says_why(ground: Ground) -> None:
    """What needs looking across lists is the operator's to refuse."""
    run = ground.start("plain", agent="nobody")
    run.await_status("reason", "InvalidSpec")
    assert "nobody" in run.status()["message"]
    assert run.pods() == []


class Caller:
    """Somebody with a kubeconfig of their own, and `kubectl agentrun`."""

    def __init__(self, ground: Ground, name: str, *roles: str) -> None:
        self._ground = ground
        kubectl, where = ground.cluster.kubectl, ("-n", ground.namespace)
        kubectl("create", "serviceaccount", name, *where)
        who = f"--serviceaccount={ground.namespace}:{name}"
        for role in roles:
            kubectl("create", "rolebinding", f"{name}-{role}", f"--clusterrole={role}", who, *where)
        config = yaml.safe_load(ground.cluster.kubeconfig.read_text())
        token = kubectl("create", "token", name, *where).strip()
        config["users"] = [{"name": name, "user": {"token": token}}]
        (context,) = config["contexts"]
        context["context"] |= {"user": name, "namespace": ground.namespace}
        self.name = f"system:serviceaccount:{ground.namespace}:{name}"
        self.kubeconfig = ground.stage.output / f"{ground.namespace}-{name}"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def __call__(self, *words: str, dsn: str = "") -> subprocess.CompletedProcess[str]:
        """`kubectl agentrun …`, with the plugin found on the PATH."""
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "KUBECONFIG": str(self.kubeconfig)}
        where = ["--dsn", dsn] if dsn else []
        command = [self._ground.cluster.kubectl_path, "agentrun", *words, *where]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120, check=False
        )


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_plugin_with_the_callers_rights(ground: Ground) -> None:
    owner = Caller(ground, "owner", "agentrun-editor")
    decider = Caller(ground, "decider", "agentrun-approver", "agentrun-reader")
    run, _ = ground.asking()

    assert "Suspended" in said(owner("get", "runs"))
    (approval,) = json.loads(said(owner("get", "approvals", "-o", "json")))["items"]
    name = approval["metadata"]["name"]
    refused = owner("approve", name)
    assert refused.returncode == 1
    assert "orbidden" in refused.stderr
    assert decider("suspend", "one").returncode == 1
    assert f"Approve by {decider.name}" in said(decider("approve", name))
    assert said(owner("wait", "one", "--for", "Succeeded")) == "one: Succeeded\n"

    words = said(owner("transcript", "one", dsn=run.dsn))
    assert "charged 100" in words
    assert said(owner("verify", "one", dsn=run.dsn)).strip()
    assert said(owner("result", "one", dsn=run.dsn)) == "All done.\n"
    assert "--dsn" in owner("transcript", "one").stderr


def test_the_plugin_kills_an_attempt(ground: Ground) -> None:
    caller = Caller(ground, "admin", "agentrun-editor", "edit")
    run = ground.start("held")
    run.await_held()
    assert run.pod(1) in said(caller("kill", "one"))
    run.await_held(attempt=2)
    assert "suspend requested" in said(caller("suspend", "one"))
    run.open_gate()
    run.await_status("phase", "Suspended")
    assert "resume requested" in said(caller("resume", "one"))
    run.await_condition("Succeeded")
    assert run.row()["infra_faults"] == 1
    assert [line["args"]["amount"] for line in run.charges()] == [100, 7]


def test_the_fields_are_explained(stage: Stage) -> None:
    assert "Installation that works on this run" in stage.cluster.kubectl(
        "explain", "agentrun.spec.controllerName"
    )
