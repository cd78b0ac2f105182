"""The Pod of one attempt, from what the planner decided. Pure: the same input, the same Pod."""

from __future__ import annotations

from typing import Any, Final

from agentrun.api import Persistence
from agentrun.api.names import (
    ANNOTATION_DEFAULT_CONTAINER,
    ANNOTATION_FENCE,
    ANNOTATION_INSTALLATION,
    RUNNER_CONTAINER,
    pod_name,
    reserved_key,
    run_labels,
)
from agentrun.cluster import environment as names
from agentrun.cluster.kube.containers import (
    ATTEMPT_VOLUME,
    FILES_VOLUME,
    SOCKET_VOLUME,
    USER,
    PodDefaults,
    runner_container,
    sidecar_names,
    sidecars,
    tmp_volume,
    volume_name,
    workspace_server,
)
from agentrun.cluster.kube.placement import affinity, tolerations
from agentrun.cluster.owner import owner_reference
from agentrun.cluster.quantity import quantity_bytes
from agentrun.cluster.secret_manifest import RUNNER_COMPONENT
from agentrun.cluster.values import AttemptPod, record_uid

Body = dict[str, Any]

AZURE_SKIP: Final = "azure.workload.identity/skip-containers"
AWS_SKIP: Final = "eks.amazonaws.com/skip-containers"
GROUP_READ: Final = 0o440
SOCKET_LIMIT: Final = "1Mi"
TMP_LIMIT: Final = "1Gi"


def pod_manifest(pod: AttemptPod, defaults: PodDefaults) -> Body:
    """A Pod that passes Pod Security's level ``restricted`` and has no API token."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.key.name,
            "namespace": pod.key.namespace,
            "labels": _labels(pod, defaults),
            "annotations": _annotations(pod),
            "ownerReferences": [owner_reference(pod.run)],
        },
        "spec": _spec(pod, defaults),
    }


def claim_manifest(pod: AttemptPod, defaults: PodDefaults) -> Body | None:
    """The volume of a workspace with persistence ``Volume``, owned by the run; None without one."""
    server = workspace_server(pod)
    if server is None or server.workspace is None:
        return None
    if server.workspace.persistence is not Persistence.VOLUME:
        return None
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(pod),
            "namespace": pod.key.namespace,
            "labels": run_labels(
                pod.run.metadata.name,
                record_uid(pod),
                component="workspace",
                version=defaults.version,
            ),
            "annotations": {ANNOTATION_INSTALLATION: pod.installation},
            "ownerReferences": [owner_reference(pod.run)],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": _headroom(server.workspace.size_limit)}},
        },
    }


def claim_name(pod: AttemptPod) -> str:
    """The same for every attempt of this object."""
    name = pod_name(pod.run.metadata.name, pod.run.metadata.uid, 0)
    return f"{name.removesuffix('-0')}-workspace"


def _labels(pod: AttemptPod, defaults: PodDefaults) -> dict[str, str]:
    """Ours win over the user's (H51)."""
    ours = run_labels(
        pod.run.metadata.name,
        record_uid(pod),
        component=RUNNER_COMPONENT,
        version=defaults.version,
        attempt=pod.attempt,
    )
    return {**_unreserved(pod.run.spec.pod.labels), **ours}


def _annotations(pod: AttemptPod) -> dict[str, str]:
    ours = {
        ANNOTATION_DEFAULT_CONTAINER: RUNNER_CONTAINER,
        ANNOTATION_FENCE: str(pod.fence),
        ANNOTATION_INSTALLATION: pod.installation,
    }
    if besides := sidecar_names(pod):  # cloud identity is for the runner alone (H48)
        ours |= {AZURE_SKIP: ";".join(besides), AWS_SKIP: ",".join(besides)}
    return {**_unreserved(pod.run.spec.pod.annotations), **ours}


def _unreserved(given: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if not reserved_key(key)}


def _spec(pod: AttemptPod, defaults: PodDefaults) -> Body:
    user = pod.run.spec.pod
    optional = {
        "serviceAccountName": user.service_account_name,
        "nodeSelector": dict(user.node_selector),
        "affinity": affinity(pod),
        "priorityClassName": user.priority_class_name,
        "runtimeClassName": user.runtime_class_name,
        "imagePullSecrets": [{"name": ref.name} for ref in user.image_pull_secrets],
        "initContainers": sidecars(pod, defaults),
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": user.termination_grace_period_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": tolerations(pod),
        **{name: value for name, value in optional.items() if value},
        "containers": [runner_container(pod, defaults)],
        "volumes": _volumes(pod),
    }


def _volumes(pod: AttemptPod) -> list[Body]:
    """The Secret is readable by the pod's group alone, whose only member is the runner's user."""
    volumes: list[Body] = [
        {
            "name": ATTEMPT_VOLUME,
            "secret": {"secretName": pod.secret_name, "defaultMode": GROUP_READ},
        },
        *(
            {"name": tmp_volume(container), "emptyDir": {"sizeLimit": TMP_LIMIT}}
            for container in (RUNNER_CONTAINER, *sidecar_names(pod))
        ),
    ]
    for variable, ref in names.ca_bundles(pod.run.spec).items():
        source = {"name": ref.name, "items": [{"key": ref.key, "path": ref.key}]}
        volumes.append({"name": volume_name(variable), "configMap": source})
    server = workspace_server(pod)
    if server is None or server.workspace is None:
        return volumes
    volumes.append({"name": SOCKET_VOLUME, "emptyDir": {"sizeLimit": SOCKET_LIMIT}})
    if server.workspace.persistence is Persistence.VOLUME:
        files: Body = {"persistentVolumeClaim": {"claimName": claim_name(pod)}}
    else:
        files = {"emptyDir": {"sizeLimit": _headroom(server.workspace.size_limit)}}
    volumes.append({"name": FILES_VOLUME, **files})
    return volumes


def _headroom(size_limit: str) -> str:
    """Twice the limit: the server itself refuses what goes over and undoes it (an answer to the
    model), before the kubelet would evict the pod (the end of an attempt, H31)."""
    return str(2 * quantity_bytes(size_limit))
