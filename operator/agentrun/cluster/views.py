"""A Pod as an API server or a state folder returns it, made into what the planner wants to know. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from agentrun.api.names import (
    ANNOTATION_FENCE,
    ANNOTATION_INSTALLATION,
    LABEL_ATTEMPT,
    LABEL_RUN_UID,
    RUNNER_CONTAINER,
)
from agentrun.cluster.values import ContainerEnd, ObjectKey, PodView, SecretView

Body = Mapping[str, Any]

HARMLESS_WAITING = frozenset({"ContainerCreating", "PodInitializing"})
"""What a container that is simply not there yet waits for."""


def pod_view(pod: Body) -> PodView:
    """The view of one Pod, whoever made it: fields that are missing or malformed become None."""
    metadata = pod["metadata"]
    status = pod.get("status") or {}
    runner = _runner(status)
    state = runner.get("state") or {}
    return PodView(
        key=ObjectKey(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        owner_uid=owner_uid(metadata),
        run_uid=_labels(metadata).get(LABEL_RUN_UID),
        fence=_number(_annotations(metadata).get(ANNOTATION_FENCE)),
        attempt=_number(_labels(metadata).get(LABEL_ATTEMPT)),
        installation=_annotations(metadata).get(ANNOTATION_INSTALLATION),
        phase=status.get("phase", "Pending"),
        node=(pod.get("spec") or {}).get("nodeName"),
        created_at=moment(metadata.get("creationTimestamp")),
        deleting=metadata.get("deletionTimestamp") is not None,
        runner_running="running" in state and not _over(status),
        runner_end=_end(state),
        waiting=_waiting(status, state),
        evicted=status.get("reason") == "Evicted",
        disrupted=_condition(status, "DisruptionTarget").get("status") == "True",
    )


def secret_view(secret: Body) -> SecretView:
    """Names and owner of one of our Secrets, never its data."""
    metadata = secret["metadata"]
    return SecretView(
        key=ObjectKey(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        owner_uid=owner_uid(metadata),
        fence=_number(_annotations(metadata).get(ANNOTATION_FENCE)),
    )


def owner_uid(metadata: Body) -> str | None:
    """UID of the controller; None when nobody controls the object."""
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return None


def moment(text: str | None) -> datetime | None:
    """A time as the API server writes it."""
    return None if text is None else datetime.fromisoformat(text)


def _runner(status: Body) -> Body:
    return next(
        (
            container
            for container in status.get("containerStatuses") or ()
            if container.get("name") == RUNNER_CONTAINER
        ),
        {},
    )


def _end(state: Body) -> ContainerEnd | None:
    """How the runner ended, by its container's own word. A pod can fail without one: evicted before
    it started, refused by the node, lost with its node (which leaves ``running`` behind); then only
    the phase tells."""
    ended = state.get("terminated")
    if not ended:
        return None
    return ContainerEnd(
        exit_code=ended["exitCode"],
        reason=ended.get("reason") or "",
        finished_at=moment(ended.get("finishedAt")),
        message=ended.get("message") or "",
    )


def _over(status: Body) -> bool:
    return status.get("phase") in ("Succeeded", "Failed")


def _waiting(status: Body, state: Body) -> tuple[str, str] | None:
    """Why the runner cannot start: its own container first, then the sidecars before it, then the
    scheduler. None while it is merely being created, and once it has started."""
    if "running" in state or "terminated" in state or _over(status):
        return None
    containers = [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]
    for reason, message in _reasons(containers):
        if reason not in HARMLESS_WAITING:
            return reason, message
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return scheduled.get("reason") or "Unschedulable", scheduled.get("message") or ""
    return None


def _reasons(containers: Iterable[Body]) -> Iterable[tuple[str, str]]:
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting")
        if waiting:
            yield waiting.get("reason") or "", waiting.get("message") or ""


def _condition(status: Body, kind: str) -> Body:
    return next((c for c in status.get("conditions") or () if c.get("type") == kind), {})


def _labels(metadata: Body) -> Body:
    return metadata.get("labels") or {}


def _annotations(metadata: Body) -> Body:
    return metadata.get("annotations") or {}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
