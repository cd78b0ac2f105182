"""The cluster port against a real API server: the operator's side."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from agentrun.api import AgentRun, AgentRunStatus, Approval, ApprovalStatus
from agentrun.api.names import API_VERSION, LABEL_RUN_UID
from agentrun.cluster.kube.attempt_secrets import AttemptSecrets
from agentrun.cluster.kube.containers import PodDefaults
from agentrun.cluster.kube.forgery import refuses_forgery
from agentrun.cluster.kube.namespaces import Namespaces
from agentrun.cluster.kube.pod_manifest import claim_manifest, pod_manifest
from agentrun.cluster.kube.resources import (
    APPROVALS,
    CLAIMS,
    CONFIGS,
    EVENTS,
    PODS,
    RUNS,
    SECRETS,
)
from agentrun.cluster.kube.rest import Resource, Rest
from agentrun.cluster.parse import parsed, readable
from agentrun.cluster.secret_manifest import secret_manifest
from agentrun.cluster.values import (
    AttemptPod,
    AttemptSecret,
    ClusterEvent,
    ObjectKey,
    PodView,
    SecretView,
)
from agentrun.cluster.views import owner_uid, pod_view, secret_view
from agentrun.errors import AlreadyExists, Conflict, Forbidden, NotFound

Body = dict[str, Any]

MANAGER: Final = "agentrun-operator"
CONTROLLER: Final = "agentrun.dev/operator"
NOTE_BYTES: Final = 1024
STRICT: Final = {"fieldValidation": "Strict", "fieldManager": MANAGER}
"""A misspelt field in a user's affinity is refused, not dropped."""


class KubeCluster:
    """Implements :class:`agentrun.cluster.port.Cluster`. ``namespaces`` empty: all of them."""

    def __init__(
        self,
        rest: Rest,
        *,
        namespaces: Sequence[str] = (),
        defaults: PodDefaults | None = None,
        instance: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._rest = rest
        self._namespaces = tuple(namespaces)
        self._defaults = defaults or PodDefaults()
        self._instance = instance or os.environ.get("POD_NAME") or socket.gethostname()
        self._clock = clock
        self._new_id = new_id
        self._facts = Namespaces(rest, monotonic)
        self._secrets = AttemptSecrets(rest, clock())

    async def close(self) -> None:
        """Close connections."""
        await self._rest.close()

    async def list_runs(self) -> Sequence[AgentRun]:
        """Paged; unreadable ones are named in the log."""
        return readable(AgentRun, await self._list(RUNS))

    async def list_approvals(self) -> Sequence[Approval]:
        """Paged; unreadable ones are named in the log."""
        return readable(Approval, await self._list(APPROVALS))

    async def list_pods(self) -> Sequence[PodView]:
        """Selected by the server, by the label that is watched too."""
        return [pod_view(body) for body in await self._list(PODS, {"labelSelector": LABEL_RUN_UID})]

    async def get_run(self, key: ObjectKey) -> AgentRun:
        """Live read; NotFound."""
        return parsed(AgentRun, await self._rest.call("get", RUNS, key.namespace, key.name))

    async def get_pod(self, key: ObjectKey) -> PodView:
        """Live read; NotFound."""
        return pod_view(await self._rest.call("get", PODS, key.namespace, key.name))

    async def get_approval(self, key: ObjectKey) -> Approval:
        """Live read; NotFound."""
        return parsed(Approval, await self._rest.call("get", APPROVALS, key.namespace, key.name))

    async def get_config(self, key: ObjectKey, entry: str) -> str:
        """One entry of ``data``."""
        body = await self._rest.call("get", CONFIGS, key.namespace, key.name)
        text = (body.get("data") or {}).get(entry)
        if text is None:
            raise NotFound(f"no entry {entry}", attempted="read ConfigMap", on=str(key))
        return str(text)

    async def secret_exists(self, key: ObjectKey, entry: str) -> bool | None:
        """The operator reads no Secrets; the kubelet reports CreateContainerConfigError."""
        del key, entry
        return None

    async def namespace_terminating(self, namespace: str) -> bool:
        """Remembered for ten seconds."""
        return await self._facts.terminating(namespace)

    async def namespace_uid(self, namespace: str) -> str:
        """Remembered for ten seconds."""
        return await self._facts.uid(namespace)

    async def create_pod(self, pod: AttemptPod) -> PodView:
        """With its volume first, if its workspace has one."""
        if (claim := claim_manifest(pod, self._defaults)) is not None:
            await self._ensure_claim(claim, pod.run)
        body = pod_manifest(pod, self._defaults)
        return pod_view(await self._create(PODS, pod.key.namespace, body))

    async def delete_pod(self, key: ObjectKey, uid: str, grace_seconds: int | None = None) -> None:
        """With a UID precondition."""
        await self._delete(PODS, key, uid, grace_seconds)

    async def create_secret(self, secret: AttemptSecret) -> SecretView:
        """Immutable, owned by the run."""
        body = secret_manifest(secret, self._defaults.version)
        view = secret_view(await self._create(SECRETS, secret.key.namespace, body))
        self._secrets.created(secret.run, view)
        return view

    async def delete_attempt_secrets(self, run: AgentRun, keep: Sequence[str]) -> None:
        """By name, because the operator may neither list Secrets nor delete a collection."""
        await self._secrets.delete(run, keep)

    async def create_approval(self, approval: Approval) -> Approval:
        """Undecided, whatever was given (H37)."""
        if approval.spec.decision is not None:
            raise Forbidden("an approval is created undecided", attempted="create Approval")
        namespace = approval.metadata.namespace
        return parsed(Approval, await self._create(APPROVALS, namespace, approval.to_dict()))

    async def delete_approval(self, key: ObjectKey, uid: str) -> None:
        """With a UID precondition."""
        await self._delete(APPROVALS, key, uid)

    async def patch_run_status(self, run: AgentRun, status: AgentRunStatus) -> AgentRun:
        """Replace the status subresource: one write, and what is not in ``status`` is gone."""
        return parsed(AgentRun, await self._replace_status(RUNS, run, status.to_dict()))

    async def patch_approval_status(self, approval: Approval, status: ApprovalStatus) -> Approval:
        """Replace the status subresource."""
        return parsed(Approval, await self._replace_status(APPROVALS, approval, status.to_dict()))

    async def delete_run(self, run: AgentRun) -> None:
        """With a UID precondition; the garbage collector does the rest."""
        await self._delete(RUNS, _key(run), run.metadata.uid)

    async def emit(self, event: ClusterEvent) -> None:
        """An Event of events.k8s.io/v1, whose time needs its microseconds."""
        meta = event.run.metadata
        at = self._clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{meta.name}.{self._new_id()}", "namespace": meta.namespace},
            "eventTime": at,
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": event.action,
            "reason": event.reason,
            "type": event.type,
            "note": _shortened(event.note),
            "regarding": _reference(event.run),
        }
        await self._create(EVENTS, meta.namespace, body)

    async def refuses_forgery(self, namespace: str) -> bool:
        """Whether the API server refuses a decision in somebody else's name; tried in this
        namespace, the operator's own."""
        return await refuses_forgery(self._rest, namespace)

    async def changes(self) -> AsyncIterator[ObjectKey]:
        """Nothing: in a cluster Kopf watches and feeds the controller."""
        nothing: tuple[ObjectKey, ...] = ()
        for key in nothing:
            yield key

    async def _list(self, resource: Resource, query: Mapping[str, str] | None = None) -> list[Body]:
        if not self._namespaces:
            return await self._rest.pages(resource, None, query)
        lists = await asyncio.gather(
            *(self._rest.pages(resource, namespace, query) for namespace in self._namespaces)
        )
        return [body for items in lists for body in items]

    async def _create(self, resource: Resource, namespace: str, body: Mapping[str, Any]) -> Body:
        return await self._rest.call("create", resource, namespace, body=body, query=STRICT)

    async def _delete(
        self, resource: Resource, key: ObjectKey, uid: str, grace: int | None = None
    ) -> None:
        options: Body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        await self._rest.call("delete", resource, key.namespace, key.name, body=options, read=False)

    async def _replace_status(
        self, resource: Resource, seen: AgentRun | Approval, status: Mapping[str, Any]
    ) -> Body:
        """The UID is not sent: in a status write it would be ignored anyway. The resource version
        says which object is meant, because no other object ever has it."""
        key = _key(seen)
        version = seen.metadata.resource_version
        if not version:
            raise Conflict("it was never read", attempted="update status", on=str(key))
        body = {
            "apiVersion": seen.api_version,
            "kind": seen.kind,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "resourceVersion": version,
            },
            "status": status,
        }
        return await self._rest.call(
            "update",
            resource,
            key.namespace,
            key.name,
            sub="status",
            body=body,
            query={"fieldManager": MANAGER},
        )

    async def _ensure_claim(self, claim: Body, run: AgentRun) -> None:
        """Made by the first attempt; later ones find it. One of somebody else is never used."""
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        try:
            await self._create(CLAIMS, namespace, claim)
        except AlreadyExists:
            found = await self._rest.call("get", CLAIMS, namespace, name)
            if owner_uid(found["metadata"]) != run.metadata.uid:
                raise Forbidden(
                    "a volume claim of that name belongs to somebody else",
                    attempted="create PersistentVolumeClaim",
                    on=f"{namespace}/{name}",
                ) from None


def _key(seen: AgentRun | Approval) -> ObjectKey:
    return ObjectKey(seen.metadata.namespace, seen.metadata.name)


def _reference(run: AgentRun) -> Body:
    return {
        "apiVersion": API_VERSION,
        "kind": run.kind,
        "namespace": run.metadata.namespace,
        "name": run.metadata.name,
        "uid": run.metadata.uid,
        "resourceVersion": run.metadata.resource_version,
    }


def _shortened(note: str) -> str:
    """The API server refuses a note above 1 KiB."""
    encoded = note.encode()
    if len(encoded) <= NOTE_BYTES:
        return note
    return encoded[: NOTE_BYTES - 3].decode(errors="ignore") + "…"
