"""The command line against a cluster, with the caller's own rights: what kubectl would do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from agentrun.api import AgentRun, Approval, Decision
from agentrun.api.names import LABEL_RUN, RUNNER_CONTAINER
from agentrun.cluster.decisions import check_open
from agentrun.cluster.kube.resources import (
    APPROVALS,
    CONFIGS,
    EVENTS,
    PODS,
    RUNS,
    SECRETS,
    WHO_AM_I,
)
from agentrun.cluster.kube.rest import APPLY, MERGE, Rest
from agentrun.cluster.parse import parsed, readable
from agentrun.cluster.values import Applied, EventView, ObjectKey, PodView
from agentrun.cluster.views import moment, pod_view
from agentrun.errors import NotFound, Rejected

Body = dict[str, Any]

MANAGER: Final = "kubectl-agentrun"
KINDS: Final = {"AgentRun": RUNS, "ConfigMap": CONFIGS, "Secret": SECRETS}


class KubeUserCluster:
    """Implements :class:`agentrun.cluster.port.UserCluster` for one namespace."""

    def __init__(self, rest: Rest, *, namespace: str) -> None:
        self._rest = rest
        self._namespace = namespace

    async def close(self) -> None:
        """Close connections."""
        await self._rest.close()

    async def check(self, manifest: Mapping[str, Any]) -> None:
        """The API server judges, when it is applied; only the kind is known before."""
        if manifest.get("kind") not in KINDS:
            raise Rejected(
                f"kind {manifest.get('kind')} is not applied here; apply it with kubectl",
                attempted="apply",
            )

    async def apply(self, manifest: Mapping[str, Any]) -> Applied:
        """Server-side apply; with a generateName, create."""
        await self.check(manifest)
        kind = str(manifest["kind"])
        given = manifest.get("metadata") or {}
        namespace = given.get("namespace") or self._namespace
        body = {**manifest, "metadata": {**given, "namespace": namespace}}
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
        resource = KINDS[kind]
        if not given.get("name"):
            made = await self._rest.call("create", resource, namespace, body=body, query=query)
            return Applied(kind, ObjectKey(namespace, made["metadata"]["name"]), "created")
        name = given["name"]
        before = await self._version(kind, namespace, name)
        made = await self._rest.call(
            "patch",
            resource,
            namespace,
            name,
            body=body,
            query={**query, "force": "true"},
            content=APPLY,
        )
        after = made["metadata"]["resourceVersion"]
        outcome = "created" if before is None else "unchanged" if before == after else "configured"
        return Applied(kind, ObjectKey(namespace, name), outcome)

    async def list_runs(self) -> Sequence[AgentRun]:
        """All runs of the namespace."""
        return readable(AgentRun, await self._rest.pages(RUNS, self._namespace))

    async def list_approvals(self) -> Sequence[Approval]:
        """All approvals of the namespace."""
        return readable(Approval, await self._rest.pages(APPROVALS, self._namespace))

    async def get_run(self, name: str) -> AgentRun:
        """NotFound."""
        return parsed(AgentRun, await self._rest.call("get", RUNS, self._namespace, name))

    async def get_approval(self, name: str) -> Approval:
        """NotFound."""
        return parsed(Approval, await self._rest.call("get", APPROVALS, self._namespace, name))

    async def change_run(self, name: str, spec: Mapping[str, Any]) -> AgentRun:
        """The API server refuses what is immutable."""
        body = await self._rest.call(
            "patch",
            RUNS,
            self._namespace,
            name,
            body={"spec": spec},
            query={"fieldManager": MANAGER},
            content=MERGE,
        )
        return parsed(AgentRun, body)

    async def decide(
        self, name: str, decision: Decision, *, reason: str = "", answer: str = ""
    ) -> Approval:
        """``decidedBy`` is stated truthfully, because before Kubernetes 1.36 nobody stamps it.

        The resource version makes sure that what was looked at is what is decided.
        """
        seen = await self.get_approval(name)
        check_open(seen)
        optional = {"decisionReason": reason, "answer": answer}
        spec = {
            "decision": decision.value,
            "decidedBy": await self._who_am_i(),
            **{field: text for field, text in optional.items() if text},
        }
        body = await self._rest.call(
            "patch",
            APPROVALS,
            self._namespace,
            name,
            body={
                "metadata": {"resourceVersion": seen.metadata.resource_version},
                "spec": spec,
            },
            query={"fieldManager": MANAGER},
            content=MERGE,
        )
        return parsed(Approval, body)

    async def remove_run(self, name: str) -> None:
        """The garbage collector removes what it owns."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        await self._rest.call("delete", RUNS, self._namespace, name, body=options, read=False)

    async def kill(self, name: str, signal: int) -> str:
        """Delete the current pod with grace 0; no signal can be sent from here."""
        del signal
        live = [pod for pod in await self._pods(name) if pod.runner_end is None]
        if not live:
            raise NotFound(
                "no attempt is running",
                attempted="kill",
                on=f"{self._namespace}/{name}",
                advice="`kubectl agentrun describe` shows its attempts",
            )
        pod = live[-1]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid},
            "gracePeriodSeconds": 0,
        }
        await self._rest.call(
            "delete", PODS, self._namespace, pod.key.name, body=options, read=False
        )
        return pod.key.name

    async def events(self, name: str) -> Sequence[EventView]:
        """Oldest first."""
        run = await self.get_run(name)
        selector = f"regarding.kind=AgentRun,regarding.uid={run.metadata.uid}"
        bodies = await self._rest.pages(EVENTS, self._namespace, {"fieldSelector": selector})
        views = [_event(ObjectKey(self._namespace, name), body) for body in bodies]
        return sorted(views, key=lambda event: event.at or datetime.min.replace(tzinfo=UTC))

    async def logs(self, name: str, *, follow: bool = False) -> AsyncIterator[str]:
        """Of the newest pod that is there."""
        pods = await self._pods(name)
        if not pods:
            raise NotFound(
                "none of its pods is there",
                attempted="logs",
                on=f"{self._namespace}/{name}",
                advice="`kubectl agentrun transcript` shows what they did",
            )
        query = {"container": RUNNER_CONTAINER, "follow": "true" if follow else "false"}
        pod = pods[-1].key.name
        async for line in self._rest.lines(PODS, self._namespace, pod, "log", query):
            yield line

    async def _pods(self, name: str) -> list[PodView]:
        """Pods of the run's present object, the newest attempt last."""
        run = await self.get_run(name)
        query = {"labelSelector": f"{LABEL_RUN}={name}"}
        views = map(pod_view, await self._rest.pages(PODS, self._namespace, query))
        own = [view for view in views if view.owner_uid == run.metadata.uid]
        return sorted(own, key=lambda view: view.attempt or 0)

    async def _version(self, kind: str, namespace: str, name: str) -> str | None:
        """Resource version before the change. A Secret is not read: whoever may write one need not
        be allowed to."""
        if kind == "Secret":
            return ""
        try:
            body = await self._rest.call("get", KINDS[kind], namespace, name)
        except NotFound:
            return None
        return str(body["metadata"]["resourceVersion"])

    async def _who_am_i(self) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        answer = await self._rest.call("create", WHO_AM_I, body=body)
        return str(answer["status"]["userInfo"]["username"])


def _event(run: ObjectKey, body: Mapping[str, Any]) -> EventView:
    """Events of both APIs come back here; the older one leaves the new fields empty."""
    series = body.get("series") or {}
    at = (
        series.get("lastObservedTime")
        or body.get("eventTime")
        or body.get("deprecatedLastTimestamp")
    )
    return EventView(
        run=run,
        type=body.get("type") or "Normal",
        reason=body.get("reason") or "",
        action=body.get("action") or "",
        note=body.get("note") or "",
        at=moment(at),
    )
