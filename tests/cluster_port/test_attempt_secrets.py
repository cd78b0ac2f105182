"""Deleting attempts' Secrets by name, over a client that answers by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tests.controller.worlds import NOW, UID, pod, run

from agentrun.api import AgentRun
from agentrun.cluster.kube.attempt_secrets import AttemptSecrets
from agentrun.cluster.kube.rest import Resource, Rest
from agentrun.cluster.values import ObjectKey, SecretView


def manifest(number: int, phase: str) -> dict[str, Any]:
    """A pod of the run, with the Secret ``s<number>``."""
    owner = {"controller": True, "uid": UID}
    volume = {"name": "attempt", "secret": {"secretName": f"s{number}"}}
    return {
        "metadata": {
            "name": pod(number).key.name,
            "namespace": "agents",
            "uid": pod(number).uid,
            "ownerReferences": [owner],
        },
        "spec": {"volumes": [volume]},
        "status": {"phase": phase},
    }


class Answering(Rest):
    """Shows these pods and notes which Secrets were deleted."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = list(pods)
        self.deleted: list[str] = []
        self.lists = 0

    async def pages(
        self, resource: Resource, namespace: str | None, query: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        self.lists += 1
        return self.pods

    async def call(self, *what: Any, **_more: Any) -> dict[str, Any]:
        self.deleted.append(what[3])
        return {}


def created(secrets: AttemptSecrets, of: AgentRun, name: str) -> None:
    secrets.created(of, SecretView(ObjectKey("agents", name), f"uid-{name}", UID, 2))


async def test_after_a_restart_the_secrets_of_earlier_attempts_go_too() -> None:
    """One new Secret made a restarted operator forget those that only the pods name."""
    rest = Answering(manifest(1, "Failed"), manifest(2, "Running"))
    secrets = AttemptSecrets(rest, NOW)
    created(secrets, run(), "s2")
    await secrets.delete(run(), keep=["s2"])
    assert rest.deleted == ["s1"]


async def test_a_run_of_this_process_costs_no_list() -> None:
    rest = Answering()
    secrets = AttemptSecrets(rest, NOW - timedelta(hours=2))
    created(secrets, run(), "s1")
    await secrets.delete(run(), keep=[])
    assert (rest.deleted, rest.lists) == (["s1"], 0)


async def test_after_a_restart_a_sidecar_that_ends_late_does_not_keep_the_secret() -> None:
    """The runner has ended, the workspace beside it not yet: the pod's phase is still Running."""
    ended, dying = manifest(1, "Running"), manifest(2, "Running")
    ended["status"]["containerStatuses"] = [
        {"name": "runner", "state": {"terminated": {"exitCode": 0}}}
    ]
    dying["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    rest = Answering(ended, dying, manifest(3, "Running"))
    await AttemptSecrets(rest, NOW).delete(run(), keep=[])
    assert rest.deleted == ["s1", "s2"]
