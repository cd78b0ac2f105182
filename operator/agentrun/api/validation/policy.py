"""What the administrator allows. A run can be stricter, never looser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from agentrun.api.model import Pricing
from agentrun.api.names import reserved_key
from agentrun.api.spec import AgentRunSpec
from agentrun.api.validation.paths import Problems
from agentrun.api.validation.servers import env_problems

ANY = ("*",)

PROXY_VARIABLES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminPolicy:
    """Allow-lists of the installation. Lists hold shell-style globs; ``ANY`` allows everything.

    Service accounts and the runner's environment are closed unless opened: both lend a run
    somebody else's rights. ``pricing`` is the operator's table, by model name.
    """

    command_servers: bool = False
    workspace_with_images: bool = False
    pricing: Mapping[str, Pricing] = field(default_factory=dict)
    images: tuple[str, ...] = ANY
    urls: tuple[str, ...] = ANY
    service_accounts: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] = ANY
    toleration_keys: tuple[str, ...] = ANY
    pod_labels: tuple[str, ...] = ANY
    pod_annotations: tuple[str, ...] = ANY
    pod_env: tuple[str, ...] = PROXY_VARIABLES


def reserved_problems(spec: AgentRunSpec) -> Problems:
    """Labels and annotations of the user never override ours or Kubernetes' own (hazard H51)."""
    for where, keys in (
        ("spec.pod.labels", spec.pod.labels),
        ("spec.pod.annotations", spec.pod.annotations),
    ):
        for key in keys:
            if reserved_key(key):
                yield f"{where}: {key} has a reserved prefix"


def policy_violations(spec: AgentRunSpec, policy: AdminPolicy) -> Problems:
    """What the run asks for and the administrator does not allow. Addresses may hold passwords and
    are not repeated."""
    pod = spec.pod
    yield from env_problems(pod.env, "spec.pod.env")
    asked: list[tuple[str, Iterable[str], tuple[str, ...]]] = [
        ("spec.pod.image", [pod.image], policy.images),
        ("spec.pod.serviceAccountName", [pod.service_account_name], policy.service_accounts),
        ("spec.pod.priorityClassName", [pod.priority_class_name], policy.priority_classes),
        ("spec.pod.tolerations", _toleration_keys(spec), policy.toleration_keys),
        ("spec.pod.labels", pod.labels, policy.pod_labels),
        ("spec.pod.annotations", pod.annotations, policy.pod_annotations),
        ("spec.pod.env", [variable.name for variable in pod.env], policy.pod_env),
        ("spec.model.baseURL", [spec.model.base_url if spec.model else ""], policy.urls),
    ]
    for index, agent in enumerate(spec.agents):
        own = (agent.model and agent.model.base_url) or ""
        asked.append((f"spec.agents[{index}].model.baseURL", [own], policy.urls))
    for index, server in enumerate(spec.tool_servers):
        where = f"spec.toolServers[{index}]"
        asked.append((f"{where}.url", [server.url or ""], policy.urls))
        asked.append((f"{where}.image", [server.image or ""], policy.images))
        if server.workspace:
            asked.append((f"{where}.workspace.image", [server.workspace.image], policy.images))
    for where, values, allowed in asked:
        for value in values:
            if value and not any(fnmatchcase(value, glob) for glob in allowed):
                shown = "" if where.endswith(("url", "URL")) else f"{value} is "
                yield f"{where}: {shown}not allowed by the administrator"


def _toleration_keys(spec: AgentRunSpec) -> list[str]:
    """Keys of the tolerations; one without a key tolerates everything and counts as ``*``."""
    return [str(toleration.get("key") or "*") for toleration in spec.pod.tolerations]
