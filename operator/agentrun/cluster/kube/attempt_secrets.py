"""Deleting attempts' Secrets without being able to read or list any.

The rights to list Secrets, and to delete them as a collection, both show their contents (the latter
even as a dry run), so the operator has neither. It deletes by name: what this process created, and,
for a run that is older than this process, what its pods name. A Secret that is in neither list was made for a pod that
was never created; the database voids it, and it goes with its run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from agentrun.api import AgentRun
from agentrun.api.names import LABEL_RUN
from agentrun.cluster.kube.containers import ATTEMPT_VOLUME
from agentrun.cluster.kube.resources import PODS, SECRETS
from agentrun.cluster.kube.rest import Rest
from agentrun.cluster.values import SecretView
from agentrun.cluster.views import owner_uid, pod_view
from agentrun.errors import Conflict, NotFound

REMEMBERED_RUNS: Final = 10_000
ENDED: Final = ("Succeeded", "Failed")


class AttemptSecrets:
    """Names and UIDs of the Secrets that were created here, by the UID of the owning run."""

    def __init__(self, rest: Rest, since: datetime) -> None:
        self._rest = rest
        self._since = since.replace(microsecond=0)  # as exact as a creationTimestamp
        self._issued: OrderedDict[str, dict[str, str]] = OrderedDict()

    def created(self, run: AgentRun, view: SecretView) -> None:
        """Remember it; the runs that were longest without one are forgotten first."""
        self._issued.setdefault(run.metadata.uid, {})[view.key.name] = view.uid
        self._issued.move_to_end(run.metadata.uid)
        while len(self._issued) > REMEMBERED_RUNS:
            self._issued.popitem(last=False)

    async def delete(self, run: AgentRun, keep: Sequence[str]) -> None:
        """Delete all that are known but those in ``keep``. Somebody else's of that name stays."""
        known: dict[str, str | None] = {**self._issued.get(run.metadata.uid, {})}
        if not known or self._older(run):
            known = {**await self._named_by_pods(run), **known}
        for name, uid in known.items():
            if name not in keep:
                await self._delete(run.metadata.namespace, name, uid)
                self._forget(run, name)

    def _older(self, run: AgentRun) -> bool:
        created = run.metadata.creation_timestamp
        return created is None or created < self._since

    async def _named_by_pods(self, run: AgentRun) -> dict[str, str | None]:
        """Secrets of the run's ended pods. A pod that has not ended may yet have to mount its own; one
        whose runner has ended does not, though its sidecars may take a while longer."""
        selector = {"labelSelector": f"{LABEL_RUN}={run.metadata.name}"}
        pods = await self._rest.pages(PODS, run.metadata.namespace, selector)
        own = [pod for pod in pods if owner_uid(pod["metadata"]) == run.metadata.uid]
        needed = set(_secrets(pod for pod in own if not _over(pod)))
        return {name: None for name in _secrets(own) if name not in needed}

    async def _delete(self, namespace: str, name: str, uid: str | None) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._rest.call("delete", SECRETS, namespace, name, body=options, read=False)
        except (NotFound, Conflict):
            return

    def _forget(self, run: AgentRun, name: str) -> None:
        issued = self._issued.get(run.metadata.uid, {})
        issued.pop(name, None)
        if not issued:
            self._issued.pop(run.metadata.uid, None)


def _over(pod: Mapping[str, Any]) -> bool:
    view = pod_view(pod)
    return view.deleting or view.runner_end is not None or view.phase in ENDED


def _secrets(pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """The attempt's Secret of each pod."""
    return [
        volume["secret"]["secretName"]
        for pod in pods
        for volume in pod["spec"].get("volumes") or ()
        if volume["name"] == ATTEMPT_VOLUME and "secret" in volume
    ]
