"""What the contract tests have in common: objects to create, and a cluster to play with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentrun.api import (
    AgentRun,
    Approval,
    ApprovalContent,
    ApprovalSpec,
    ObjectMeta,
    OwnerReference,
    RunRef,
    Scope,
)
from agentrun.api.names import pod_name
from agentrun.cluster.port import Cluster, UserCluster
from agentrun.cluster.values import AttemptPod, AttemptSecret, ObjectKey, PodView

T = TypeVar("T")

INSTALLATION = "contract"
IMAGE = "registry.example/agentrun:test"


def manifest(name: str, **spec: Any) -> dict[str, Any]:
    """A small valid AgentRun."""
    return {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "metadata": {"name": name},
        "spec": {
            "prompt": "say hello",
            "agents": [{"name": "one"}],
            "model": {"name": "some-model"},
            **spec,
        },
    }


def config(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def user_secret(name: str, **data: str) -> dict[str, Any]:
    """A user's Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def key_of(run: AgentRun) -> ObjectKey:
    """Key of a run."""
    return ObjectKey(run.metadata.namespace, run.metadata.name)


def secret_for(run: AgentRun, name: str, attempt: int = 1) -> AttemptSecret:
    """An attempt's Secret."""
    return AttemptSecret(
        key=ObjectKey(run.metadata.namespace, name),
        run=run,
        attempt=attempt,
        fence=attempt,
        installation=INSTALLATION,
        dsn="postgresql://db/agentrun",
        secret="s3cret",
    )


def pod_for(run: AgentRun, attempt: int = 1, **more: Any) -> AttemptPod:
    """An attempt's pod."""
    meta = run.metadata
    return AttemptPod(
        key=ObjectKey(meta.namespace, pod_name(meta.name, meta.uid, attempt)),
        run=run,
        attempt=attempt,
        fence=attempt + 10,
        installation=INSTALLATION,
        secret_name=f"{meta.name}-attempt-{attempt}",
        image=IMAGE,
        workspace_image=IMAGE,
        **more,
    )


def approval_for(run: AgentRun, suffix: str = "1a2b3c4d5e", scope: Scope = Scope.TOOL) -> Approval:
    """A question about a run."""
    owner = OwnerReference(
        api_version=run.api_version,
        kind=run.kind,
        name=run.metadata.name,
        uid=run.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )
    return Approval(
        metadata=ObjectMeta(
            name=f"{run.metadata.name}-apr-{suffix}",
            namespace=run.metadata.namespace,
            owner_references=(owner,),
        ),
        spec=ApprovalSpec(
            run_ref=RunRef(name=run.metadata.name, uid=run.metadata.uid),
            scope=scope,
            boundary="main/1/1/0",
            content_hash="0" * 64,
            content=ApprovalContent(tool="ops.restart", arguments_json="{}"),
        ),
    )


@dataclass
class Scene:
    """One cluster under test. ``begin`` makes a created pod run, ``end`` lets its runner end,
    ``hold`` makes a pod that takes its time to stop."""

    adapter: str
    cluster: Cluster
    user: UserCluster
    namespace: str
    person: str
    begin: Callable[[PodView], Awaitable[None]]
    end: Callable[[PodView, int], Awaitable[None]]
    hold: Callable[[PodView], Awaitable[None]]
    made: list[str] = field(default_factory=list)

    async def run(self, name: str = "one", **spec: Any) -> AgentRun:
        """Apply a run and read it back."""
        await self.user.apply(manifest(name, **spec))
        return await self.cluster.get_run(ObjectKey(self.namespace, name))

    async def pod(self, run: AgentRun, attempt: int = 1, **more: Any) -> PodView:
        """Create an attempt's Secret and pod."""
        pod = pod_for(run, attempt, **more)
        await self.cluster.create_secret(secret_for(run, pod.secret_name, attempt))
        return await self.cluster.create_pod(pod)


async def until(probe: Callable[[], Awaitable[T | None]], what: str, within: float = 150.0) -> T:
    """The first truthy answer. No test asserts how long it took."""
    deadline = time.monotonic() + within
    while True:
        if answer := await probe():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"never: {what}")
        await asyncio.sleep(0.02)
