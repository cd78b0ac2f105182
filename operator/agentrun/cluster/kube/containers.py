"""The containers of a runner pod: the runner, and tool servers as native sidecars. Pure.

A native sidecar (an init container that is restarted always) starts before the runner and never
keeps the pod alive after it (H32).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agentrun.api import EnvVar, Persistence, ToolServer
from agentrun.api.names import RUNNER_CONTAINER
from agentrun.api.tools import DEFAULT_PORT
from agentrun.cluster import environment as names
from agentrun.cluster.quantity import quantity_bytes
from agentrun.cluster.values import AttemptPod, record_uid

Body = dict[str, Any]

USER: Final = 65532
SECRET_MOUNT: Final = "/run/agentrun/secret"  # noqa: S105 - a path
SOCKET_MOUNT: Final = "/run/agentrun/workspace"
SOCKET: Final = f"{SOCKET_MOUNT}/private/mcp.sock"
"""In a folder that the server makes for itself: the volume's own root is open to everybody."""

CA_MOUNT: Final = "/run/agentrun/ca"
TMP_MOUNT: Final = "/tmp"  # noqa: S108 - in the container, a volume of its own
WORKSPACE_MOUNT: Final = "/workspace"
WORKSPACE_CONTAINER: Final = "workspace"
WORKSPACE_COMMAND: Final = ("python", "-P", "-m", "agentrun.workspace")
"""``-P``: nothing is imported from the current folder, which a model may have written."""

ATTEMPT_VOLUME: Final = "attempt"
SOCKET_VOLUME: Final = "workspace-socket"
FILES_VOLUME: Final = "workspace"

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """What the installation sets for all runner pods. Memory is requested as it is limited, so that
    a node's memory pressure is nobody's surprise."""

    image_pull_policy: str = "IfNotPresent"
    version: str = ""
    runner_env: Mapping[str, str] = field(default_factory=dict)
    """Plain settings for all runners (log level, where traces go); what a run needs wins over them,
    and they over ``spec.pod.env``."""

    runner_resources: Mapping[str, Any] = field(
        default_factory=lambda: {
            "requests": {"cpu": "100m", "memory": "512Mi"},
            "limits": {"memory": "512Mi"},
        }
    )
    sidecar_resources: Mapping[str, Any] = field(
        default_factory=lambda: {
            "requests": {"cpu": "50m", "memory": "256Mi"},
            "limits": {"memory": "256Mi"},
        }
    )


def runner_container(pod: AttemptPod, defaults: PodDefaults) -> Body:
    """The attempt itself. It never executes what a model chose; tool servers do."""
    spec = pod.run.spec
    mounts = [
        _mount(ATTEMPT_VOLUME, SECRET_MOUNT, read_only=True),
        _mount(tmp_volume(RUNNER_CONTAINER), TMP_MOUNT),
    ]
    if workspace_server(pod) is not None:
        mounts.append(_mount(SOCKET_VOLUME, SOCKET_MOUNT))
    mounts += [
        _mount(volume_name(variable), f"{CA_MOUNT}/{variable}", read_only=True)
        for variable in names.ca_bundles(spec)
    ]
    return {
        "name": RUNNER_CONTAINER,
        "image": pod.image,
        "imagePullPolicy": defaults.image_pull_policy,
        "args": ["runner"],
        "env": _runner_env(pod, defaults),
        "resources": dict(spec.pod.resources or defaults.runner_resources),
        "securityContext": container_security(),
        "volumeMounts": mounts,
    }


def sidecars(pod: AttemptPod, defaults: PodDefaults) -> list[Body]:
    """One for each tool server that runs beside the runner."""
    return [
        _workspace(server, pod, defaults)
        if server.workspace is not None
        else _image_server(name, server, defaults)
        for name, server in _placed(pod)
    ]


def sidecar_names(pod: AttemptPod) -> list[str]:
    """Names of the sidecar containers."""
    return [name for name, _ in _placed(pod)]


def workspace_server(pod: AttemptPod) -> ToolServer | None:
    """The run's workspace, if it has one."""
    return next((s for s in pod.run.spec.tool_servers if s.workspace is not None), None)


def volume_name(variable: str) -> str:
    """Name of the volume that belongs to an environment variable."""
    return variable.lower().replace("_", "-")


def tmp_volume(container: str) -> str:
    """Each container has a temporary folder of its own."""
    return f"tmp-{container}"


def container_security() -> Body:
    """What Pod Security's level ``restricted`` demands of each container, and a read-only root."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _placed(pod: AttemptPod) -> Iterator[tuple[str, ToolServer]]:
    """Sidecar servers with container names. A server's name need not be a DNS label."""
    for index, server in enumerate(pod.run.spec.tool_servers):
        if server.workspace is not None:
            yield WORKSPACE_CONTAINER, server
        elif server.image is not None:
            fits = _DNS_LABEL.fullmatch(server.name)
            yield (f"tool-{server.name}" if fits else f"server-{index}"), server


def _runner_env(pod: AttemptPod, defaults: PodDefaults) -> list[Body]:
    """Ours, the installation's, then the user's where nothing is set yet (H51). Each name occurs
    once, because appliers merge by name."""
    spec = pod.run.spec
    env: list[Body] = [
        {"name": names.RUN_UID, "value": record_uid(pod)},
        {"name": names.FENCE, "value": str(pod.fence)},
        _field(names.POD_UID, "metadata.uid"),
        _field(names.NODE, "spec.nodeName"),
        {"name": names.SECRET_DIR, "value": SECRET_MOUNT},
        {"name": names.GRACE, "value": str(spec.pod.termination_grace_period_seconds)},
    ]
    if workspace_server(pod) is not None:
        env.append({"name": names.WORKSPACE_SOCKET, "value": SOCKET})
    for variable, bundle in names.ca_bundles(spec).items():
        env.append({"name": variable, "value": f"{CA_MOUNT}/{variable}/{bundle.key}"})
    for variable, secret in names.secret_variables(spec).items():
        source = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
        env.append({"name": variable, "valueFrom": source})
    for variable, config in names.config_variables(spec).items():
        source = {"configMapKeyRef": {"name": config.name, "key": config.key}}
        env.append({"name": variable, "valueFrom": source})
    taken = {variable["name"] for variable in env}
    given = defaults.runner_env.items()
    env += [{"name": name, "value": value} for name, value in given if name not in taken]
    taken |= defaults.runner_env.keys()
    return [*env, *_user_env(v for v in spec.pod.env if v.name not in taken)]


def _field(name: str, path: str) -> Body:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _user_env(variables: Iterable[EnvVar]) -> list[Body]:
    return [variable.to_dict() for variable in variables]


def _workspace(server: ToolServer, pod: AttemptPod, defaults: PodDefaults) -> Body:
    """Files and shell. No secret, no key, no token in it: model-chosen commands run here (H44)."""
    settings = server.workspace
    assert settings is not None
    size = quantity_bytes(settings.size_limit)
    args = ["--socket", SOCKET, "--root", WORKSPACE_MOUNT, "--size-limit", str(size)]
    if settings.persistence is Persistence.VOLUME:
        args.append("--durable")
    return {
        "name": WORKSPACE_CONTAINER,
        "image": settings.image or pod.workspace_image or pod.image,
        "imagePullPolicy": defaults.image_pull_policy,
        "restartPolicy": "Always",
        "command": list(WORKSPACE_COMMAND),
        "args": args,
        "env": [{"name": "HOME", "value": WORKSPACE_MOUNT}],
        "resources": dict(settings.resources or defaults.sidecar_resources),
        "securityContext": container_security(),
        "volumeMounts": [
            _mount(SOCKET_VOLUME, SOCKET_MOUNT),
            _mount(FILES_VOLUME, WORKSPACE_MOUNT),
            _mount(tmp_volume(WORKSPACE_CONTAINER), TMP_MOUNT),
        ],
    }


def _image_server(name: str, server: ToolServer, defaults: PodDefaults) -> Body:
    """Somebody's MCP server. Its home is the one place it may write to, unless it says otherwise."""
    env = _user_env(server.env)
    if all(variable["name"] != "HOME" for variable in env):
        env.insert(0, {"name": "HOME", "value": TMP_MOUNT})
    return {
        "name": name,
        "image": server.image,
        "imagePullPolicy": server.image_pull_policy.value,
        "restartPolicy": "Always",
        "args": list(server.args),
        "env": env,
        "ports": [{"containerPort": server.port or DEFAULT_PORT, "protocol": "TCP"}],
        "resources": dict(server.resources or defaults.sidecar_resources),
        "securityContext": container_security(),
        "volumeMounts": [_mount(tmp_volume(name), TMP_MOUNT)],
    }


def _mount(volume: str, path: str, *, read_only: bool = False) -> Body:
    mount: Body = {"name": volume, "mountPath": path}
    return {**mount, "readOnly": True} if read_only else mount
