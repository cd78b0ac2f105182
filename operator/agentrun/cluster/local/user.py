"""The command line's side of local mode: apply, change, decide, kill, read."""

from __future__ import annotations

import asyncio
import secrets
import signal as signals
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agentrun.api import AgentRun, Approval, Decision
from agentrun.api.names import LABEL_ATTEMPT, pod_name
from agentrun.cluster.local.admission import (
    check_decision,
    check_local,
    check_update,
    merged,
    parsed_run,
    reapplied,
)
from agentrun.cluster.local.config_objects import plain_metadata, texts
from agentrun.cluster.local.secrets import entries_of
from agentrun.cluster.local.state import ENDED, KILLED_BY_USER, LocalState
from agentrun.cluster.local.store import key_of
from agentrun.cluster.parse import parsed, readable
from agentrun.cluster.values import Applied, EventView, ObjectKey
from agentrun.errors import AlreadyExists, InvalidSpec, NotFound, Rejected

Body = dict[str, Any]
T = TypeVar("T")

FATAL = frozenset(
    {signals.SIGKILL, signals.SIGTERM, signals.SIGINT, signals.SIGHUP, signals.SIGQUIT}
)
CHANGEABLE_METADATA = frozenset({"labels", "annotations"})
FOLLOW_SECONDS = 0.1
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Person:
    """Who is at the terminal, as the operating system says."""

    name: str
    groups: Collection[str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A checked manifest: the object to create, or what to make of the one that is there.

    ``entries`` are a Secret's contents, which are never part of an object.
    """

    kind: str
    body: Body
    change: Callable[[Body], Body]
    entries: Mapping[str, bytes] | None = field(default=None, repr=False)


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

    async def check(self, manifest: Mapping[str, Any]) -> None:
        """What ``apply`` would refuse is refused; nothing is written."""
        await _do(lambda: self._preview(self._wanted(manifest)))

    async def apply(self, manifest: Mapping[str, Any]) -> Applied:
        """AgentRun, ConfigMap or Secret."""
        return await _do(lambda: self._apply(self._wanted(manifest)))

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
        """Oldest first; an earlier run of the same name has its own. The last one's stay."""

        def work() -> list[EventView]:
            told = self._state.store.events(self._key(name))
            try:
                uid = self._state.store.get("AgentRun", self._key(name))["metadata"]["uid"]
            except NotFound:
                if not told:
                    raise
                uid = told[-1].get("uid")
            return [
                EventView(
                    run=self._key(name),
                    type=event["type"],
                    reason=event["reason"],
                    action=event["action"],
                    note=event["note"],
                    at=datetime.fromisoformat(event["at"]),
                )
                for event in told
                if event.get("uid", uid) == uid
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

    def _wanted(self, manifest: Mapping[str, Any]) -> Wanted:
        kinds = {"AgentRun": self._run, "ConfigMap": self._config, "Secret": self._secret}
        kind = manifest.get("kind")
        if kind not in kinds:
            raise Rejected(
                f"kind {kind} is not known here; local mode takes {', '.join(kinds)}",
                attempted="apply",
            )
        return kinds[kind](manifest)

    def _run(self, manifest: Mapping[str, Any]) -> Wanted:
        try:
            run = self._admit(manifest)
        except InvalidSpec as error:
            raise Rejected(error.message, attempted="apply AgentRun") from None
        check_local(run)
        meta = run.metadata
        body = run.to_dict()
        body["metadata"] = {
            "name": meta.name or meta.generate_name + self._new_suffix(),
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
            said = {
                part: dict(getattr(meta, part))
                for part in meta.model_fields_set & CHANGEABLE_METADATA
            }
            return {
                **old,
                "metadata": {**old["metadata"], **said},
                "spec": new.to_dict()["spec"],
            }

        return Wanted("AgentRun", body, change)

    def _config(self, manifest: Mapping[str, Any]) -> Wanted:
        metadata = plain_metadata(manifest, self._namespace)
        data = texts(manifest, "data")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return Wanted("ConfigMap", body, lambda old: {**old, "data": data})

    def _secret(self, manifest: Mapping[str, Any]) -> Wanted:
        metadata = plain_metadata(manifest, self._namespace)
        entries = entries_of(manifest)
        kind = manifest.get("type", "Opaque")
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind}
        return Wanted("Secret", body, dict, entries)

    def _preview(self, wanted: Wanted) -> None:
        try:
            stored = self._state.store.get(wanted.kind, key_of(wanted.body))
        except NotFound:
            return
        wanted.change(stored)

    def _apply(self, wanted: Wanted) -> Applied:
        if wanted.entries is not None:
            return self._apply_secret(wanted, wanted.entries)
        return self._create_or(wanted.kind, wanted.body, wanted.change)

    def _apply_secret(self, wanted: Wanted, entries: Mapping[str, bytes]) -> Applied:
        """The contents go into files; a changed Secret is the same object with other files."""
        key = key_of(wanted.body)
        uid = self._state.secret_uid(key)
        if uid is not None:
            self._state.secrets.write(uid, entries)
            return Applied("Secret", key, "configured")
        uid = self._state.new_uid()
        self._state.secrets.write(uid, entries)
        self._state.store.create("Secret", wanted.body, uid)
        return Applied("Secret", key, "created")

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
        raise NotFound(
            "no attempt is running",
            attempted="kill",
            on=str(self._key(name)),
            advice="`agentrun describe` shows its attempts",
        )

    def _newest_pod_name(self, name: str) -> str:
        """By the logs, because pods go before their run does."""
        run = self._state.store.get("AgentRun", self._key(name))
        stem = pod_name(name, run["metadata"]["uid"], 0).removesuffix("0")
        attempts = self._state.folder.logged_attempts(stem)
        if not attempts:
            raise NotFound(
                "no attempt has started yet",
                attempted="logs",
                on=str(self._key(name)),
                advice="`agentrun describe` shows what it waits for",
            )
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
