"""The command line's side of local mode: apply, change, decide, kill, read."""

from __future__ import annotations

import asyncio
import secrets
import signal as signals
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agentrun.api import AgentRun, Approval, Decision
from agentrun.api.names import LABEL_ATTEMPT, pod_name
from agentrun.cluster.local.admission import (
    check_decision,
    check_update,
    merged,
    parsed_run,
    reapplied,
)
from agentrun.cluster.local.secrets import entries_of
from agentrun.cluster.local.state import ENDED, KILLED_BY_USER, LocalState
from agentrun.cluster.local.store import key_of
from agentrun.cluster.reading import parsed, readable
from agentrun.cluster.values import Applied, EventView, ObjectKey
from agentrun.errors import AlreadyExists, InvalidSpec, NotFound, Rejected

Body = dict[str, Any]
T = TypeVar("T")

FATAL = frozenset(
    {signals.SIGKILL, signals.SIGTERM, signals.SIGINT, signals.SIGHUP, signals.SIGQUIT}
)
FOLLOW_SECONDS = 0.1
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Person:
    """Who is at the terminal, as the operating system says."""

    name: str
    groups: Collection[str]


def random_suffix() -> str:
    """Five characters, as the API server appends to a generateName."""
    return "".join(secrets.choice(SUFFIX_LETTERS) for _ in range(5))


class LocalUserCluster:
    """Implements :class:`agentrun.cluster.port.UserCluster` on a state folder."""

    def __init__(
        self,
        state: LocalState,
        person: Person,
        *,
        admit: Callable[[Mapping[str, Any]], AgentRun],
        new_suffix: Callable[[], str] = random_suffix,
        namespace: str = "default",
    ) -> None:
        self._state = state
        self._person = person
        self._admit = admit
        self._new_suffix = new_suffix
        self._namespace = namespace

    async def close(self) -> None:
        """Close the store."""
        await _do(self._state.close)

    async def apply(self, manifest: Mapping[str, Any]) -> Applied:
        """AgentRun, ConfigMap or Secret."""
        kinds = {
            "AgentRun": self._apply_run,
            "ConfigMap": self._apply_config,
            "Secret": self._apply_secret,
        }
        kind = manifest.get("kind")
        if kind not in kinds:
            raise Rejected(
                f"kind {kind} is not known here; local mode takes {', '.join(kinds)}",
                attempted="apply",
            )
        return await _do(lambda: kinds[kind](manifest))

    async def list_runs(self) -> Sequence[AgentRun]:
        """All runs of the namespace."""
        return await _do(lambda: readable(AgentRun, self._list("AgentRun")))

    async def list_approvals(self) -> Sequence[Approval]:
        """All approvals of the namespace."""
        return await _do(lambda: readable(Approval, self._list("Approval")))

    async def get_run(self, name: str) -> AgentRun:
        """NotFound."""
        body = await _do(lambda: self._state.store.get("AgentRun", self._key(name)))
        return parsed(AgentRun, body)

    async def get_approval(self, name: str) -> Approval:
        """NotFound."""
        body = await _do(lambda: self._state.store.get("Approval", self._key(name)))
        return parsed(Approval, body)

    async def change_run(self, name: str, spec: Mapping[str, Any]) -> AgentRun:
        """Only what is mutable."""

        def change(body: Body) -> Body:
            old = parsed(AgentRun, body)
            new = parsed_run({**body, "spec": merged(body["spec"], spec)})
            check_update(old, new)
            return {**body, "spec": new.to_dict()["spec"]}

        body = await _do(lambda: self._state.store.update("AgentRun", self._key(name), change))
        return parsed(AgentRun, body)

    async def decide(
        self, name: str, decision: Decision, *, reason: str = "", answer: str = ""
    ) -> Approval:
        """Stamped with this person and the time, whatever anybody typed."""

        def change(body: Body) -> Body:
            person = self._person
            check_decision(parsed(Approval, body), decision, answer, person.name, person.groups)
            fields = {"decision": decision.value, "decidedBy": person.name}
            optional = {"decisionReason": reason, "answer": answer}
            given = {field: text for field, text in optional.items() if text}
            return {**body, "spec": {**body["spec"], **fields, **given}}

        body = await _do(lambda: self._state.store.update("Approval", self._key(name), change))
        return parsed(Approval, body)

    async def remove_run(self, name: str) -> None:
        """Its pods are asked to stop; whoever drives the folder sees to the rest."""

        await _do(lambda: self._state.delete_run(self._key(name)))

    async def kill(self, name: str, signal: int = signals.SIGKILL) -> str:
        """Noted on the pod before the signal is sent, so that the end is never seen without it."""
        return await _do(lambda: self._kill(name, signal))

    async def events(self, name: str) -> Sequence[EventView]:
        """Oldest first; they stay when the run is gone."""

        def work() -> list[EventView]:
            return [
                EventView(
                    run=self._key(name),
                    type=event["type"],
                    reason=event["reason"],
                    action=event["action"],
                    note=event["note"],
                    at=datetime.fromisoformat(event["at"]),
                )
                for event in self._state.store.events(self._key(name))
            ]

        return await _do(work)

    async def logs(self, name: str, *, follow: bool = False) -> AsyncIterator[str]:
        """The newest pod's log; it can be read when the pod is gone."""
        pod = await _do(lambda: self._newest_pod_name(name))
        path = self._state.folder.log(pod)
        offset, rest = 0, b""
        while True:
            ended = not follow or await _do(lambda: self._ended(pod))
            content = await _do(partial(_read_from, path, offset))
            offset += len(content)
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
            if ended:
                break
            await asyncio.sleep(FOLLOW_SECONDS)
        if rest:
            yield rest.decode(errors="replace")

    def _key(self, name: str) -> ObjectKey:
        return ObjectKey(self._namespace, name)

    def _list(self, kind: str) -> list[Body]:
        return [
            body
            for body in self._state.store.all_of(kind)
            if body["metadata"]["namespace"] == self._namespace
        ]

    def _apply_run(self, manifest: Mapping[str, Any]) -> Applied:
        try:
            run = self._admit(manifest)
        except InvalidSpec as error:
            raise Rejected(error.message, attempted="apply AgentRun") from None
        if images := [server.name for server in run.spec.tool_servers if server.image is not None]:
            raise Rejected(
                f"tool server {images[0]} is an image, and local mode runs no images",
                attempted="apply AgentRun",
                advice="Give it as command or url, or run it in a cluster",
            )
        body = run.to_dict()
        meta = run.metadata
        name = meta.name or meta.generate_name + self._new_suffix()
        body["metadata"] = {
            "name": name,
            "namespace": meta.namespace or self._namespace,
            "labels": dict(meta.labels),
            "annotations": dict(meta.annotations),
        }
        body["spec"]["requestedBy"] = self._person.name
        body.pop("status", None)

        def change(old: Body) -> Body:
            stored = parsed(AgentRun, old)
            new = reapplied(stored, AgentRun.model_validate(body))
            check_update(stored, new)
            return {**old, "spec": new.to_dict()["spec"]}

        return self._create_or("AgentRun", body, change)

    def _apply_config(self, manifest: Mapping[str, Any]) -> Applied:
        data = manifest.get("data") or {}
        if not isinstance(data, Mapping) or not all(isinstance(v, str) for v in data.values()):
            raise Rejected("data: values must be strings", attempted="apply ConfigMap")
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self._plain_metadata(manifest),
            "data": dict(data),
        }
        return self._create_or("ConfigMap", body, lambda old: {**old, "data": body["data"]})

    def _apply_secret(self, manifest: Mapping[str, Any]) -> Applied:
        """The contents go into files; a changed Secret is the same object with other files."""
        entries = entries_of(manifest)
        metadata = self._plain_metadata(manifest)
        key = ObjectKey(metadata["namespace"], metadata["name"])
        uid = self._state.secret_uid(key)
        if uid is not None:
            self._state.secrets.write(uid, entries)
            return Applied("Secret", key, "configured")
        uid = self._state.new_uid()
        self._state.secrets.write(uid, entries)
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": manifest.get("type", "Opaque"),
        }
        self._state.store.create("Secret", body, uid)
        return Applied("Secret", key, "created")

    def _plain_metadata(self, manifest: Mapping[str, Any]) -> Body:
        metadata = manifest.get("metadata") or {}
        name = metadata.get("name")
        if not isinstance(name, str) or not name:
            raise Rejected("metadata.name: required", attempted=f"apply {manifest.get('kind')}")
        return {"name": name, "namespace": metadata.get("namespace") or self._namespace}

    def _create_or(self, kind: str, body: Body, change: Callable[[Body], Body]) -> Applied:
        store, key = self._state.store, key_of(body)
        with store.transaction():
            try:
                store.create(kind, body)
            except AlreadyExists:
                before = store.get(kind, key)
                after = store.update(kind, key, change)
                outcome = "unchanged" if after == before else "configured"
                return Applied(kind, key, outcome)
        return Applied(kind, key, "created")

    def _pods(self, name: str) -> list[Body]:
        """Pods of the run's present object, the newest attempt last."""
        run = self._state.store.get("AgentRun", self._key(name))
        pods = [b for b in self._state.store.owned(run["metadata"]["uid"]) if b["kind"] == "Pod"]
        return sorted(pods, key=lambda pod: int(pod["metadata"]["labels"][LABEL_ATTEMPT]))

    def _kill(self, name: str, signal: int) -> str:
        for pod in reversed(self._pods(name)):
            uid = pod["metadata"]["uid"]
            if not self._state.kubelet.runner_alive(uid):
                continue
            if signal in FATAL:
                self._state.store.update("Pod", key_of(pod), _noted, uid=uid)
            self._state.kubelet.signal_runner(uid, signal)
            return str(pod["metadata"]["name"])
        raise NotFound("no attempt is running", attempted="kill", on=str(self._key(name)))

    def _newest_pod_name(self, name: str) -> str:
        """By the logs, because pods go before their run does."""
        run = self._state.store.get("AgentRun", self._key(name))
        stem = pod_name(name, run["metadata"]["uid"], 0).removesuffix("0")
        attempts = self._state.folder.logged_attempts(stem)
        if not attempts:
            raise NotFound("no attempt has started yet", attempted="logs", on=str(self._key(name)))
        return f"{stem}{max(attempts)}"

    def _ended(self, pod: str) -> bool:
        try:
            body = self._state.settle_pod(self._state.store.get("Pod", self._key(pod)))
        except NotFound:
            return True
        return body is None or body["status"]["phase"] in ENDED


def _read_from(path: Path, offset: int) -> bytes:
    """What the file has had since; nothing while it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read()
    except FileNotFoundError:
        return b""


def _noted(pod: Body) -> Body:
    metadata = pod["metadata"]
    annotations = {**metadata.get("annotations", {}), KILLED_BY_USER: "true"}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


async def _do(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)
