"""What one attempt needs as child processes: the local counterpart of a pod manifest. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrun.api import AgentRunSpec, Persistence
from agentrun.api.names import (
    ANNOTATION_FENCE,
    ANNOTATION_INSTALLATION,
    run_labels,
)
from agentrun.cluster import environment as names
from agentrun.cluster.local.folder import StateFolder
from agentrun.cluster.local.pod import TERMINATION
from agentrun.cluster.owner import owner_reference
from agentrun.cluster.quantity import quantity_bytes
from agentrun.cluster.values import AttemptPod, record_uid

PYTHON = (sys.executable, "-P")
"""``-P``: nothing is imported from the current folder, which a model may have written."""


@dataclass(frozen=True, slots=True)
class Commands:
    """What the two processes of a pod are; tests put small stand-ins here."""

    runner: tuple[str, ...] = (*PYTHON, "-m", "agentrun.runner", "runner")
    workspace: tuple[str, ...] = (*PYTHON, "-m", "agentrun.workspace")


HARMLESS = re.compile(r"PATH|LANG|LC_\w+|TZ|TERM|USER|LOGNAME|SHELL|TMPDIR|PYTHON(PATH|HOME|UTF8)")
"""What a workspace server may know of its user's environment: nothing that holds a secret."""


def local_pod_file(
    pod: AttemptPod, uid: str, folder: StateFolder, commands: Commands, ambient: Mapping[str, str]
) -> dict[str, Any]:
    """How to start the pod that gets this UID, without any secret value: kept in its folder."""
    spec = pod.run.spec
    secret_env, config_env = _references(spec)
    workspace = _workspace(pod, uid, folder, commands.workspace, ambient)
    own = {
        names.RUN_UID: record_uid(pod),
        names.FENCE: str(pod.fence),
        names.POD_UID: uid,
        names.SECRET_DIR: str(folder.mounted_secret(uid)),
        names.GRACE: str(spec.pod.termination_grace_period_seconds),
        names.TERMINATION_LOG: str(folder.pod(uid) / TERMINATION),
    }
    if workspace:
        own[names.WORKSPACE_SOCKET] = workspace["socket"]
    return {
        "namespace": pod.key.namespace,
        "runner": {"argv": list(commands.runner), "log": str(folder.log(pod.key.name))},
        "workspace": workspace,
        "grace": spec.pod.termination_grace_period_seconds,
        "env": {v.name: v.value for v in spec.pod.env if not v.value_from},
        "ownEnv": own,
        "secretName": pod.secret_name,
        "secretEnv": secret_env,
        "configEnv": config_env,
        "configFiles": {name: [ref.name, ref.key] for name, ref in names.ca_bundles(spec).items()},
    }


def local_pod_body(pod: AttemptPod, host: str) -> dict[str, Any]:
    """The pod as an object, in the shape in which an API server would return it."""
    user = pod.run.spec.pod
    ours = run_labels(
        pod.run.metadata.name, record_uid(pod), component="runner", attempt=pod.attempt
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.key.name,
            "namespace": pod.key.namespace,
            "labels": {**user.labels, **ours},
            "annotations": {
                **user.annotations,
                ANNOTATION_FENCE: str(pod.fence),
                ANNOTATION_INSTALLATION: pod.installation,
            },
            "ownerReferences": [owner_reference(pod.run)],
        },
        "spec": {
            "nodeName": host,
            "terminationGracePeriodSeconds": user.termination_grace_period_seconds,
        },
        "status": {"phase": "Pending"},
    }


def inherited(ambient: Mapping[str, str], own_key: bool) -> dict[str, str]:
    """What a runner takes over from its user's environment, because it is the user's machine.

    Nothing of another run, and no API key if the run names its own.
    """
    return {
        name: value
        for name, value in ambient.items()
        if (not name.startswith("AGENTRUN_") or name in names.INHERITED)
        and not (own_key and name == names.API_KEY)
    }


def _harmless(ambient: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in ambient.items() if HARMLESS.fullmatch(name)}


def _references(spec: AgentRunSpec) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Variables whose values are in Secrets, and in ConfigMaps."""
    secrets = {name: [ref.name, ref.key] for name, ref in names.secret_variables(spec).items()}
    configs = {name: [ref.name, ref.key] for name, ref in names.config_variables(spec).items()}
    for variable in spec.pod.env:
        source = variable.value_from
        if source and (secret := source.secret_key_ref):
            secrets.setdefault(variable.name, [secret.name, secret.key])
        if source and (config := source.config_map_key_ref):
            configs.setdefault(variable.name, [config.name, config.key])
    return secrets, configs


def _workspace(
    pod: AttemptPod,
    uid: str,
    folder: StateFolder,
    command: Sequence[str],
    ambient: Mapping[str, str],
) -> dict[str, Any] | None:
    """The workspace server: no secret in its environment, because model-chosen commands run in it.
    The pod's UID is there to find strays by."""
    server = next((s for s in pod.run.spec.tool_servers if s.workspace is not None), None)
    if server is None or server.workspace is None:
        return None
    lasting = server.workspace.persistence is Persistence.VOLUME
    root = str(folder.volume(pod.run.metadata.uid) if lasting else folder.workspace(uid))
    socket = str(folder.socket(uid))
    size = quantity_bytes(server.workspace.size_limit)
    return {
        "argv": [
            *command,
            *("--socket", socket, "--root", root, "--size-limit", str(size)),
            *(["--durable"] if lasting else []),
        ],
        "env": {**_harmless(ambient), "HOME": root, names.POD_UID: uid},
        "log": str(folder.workspace_log(pod.key.name)),
        "socket": socket,
        "root": root,
    }
