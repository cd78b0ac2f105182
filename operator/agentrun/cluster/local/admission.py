"""What the local API server refuses, as the CRDs and admission policies do in a cluster. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from agentrun.api import (
    ANSWERED,
    DECISIONS,
    AgentRun,
    AgentRunSpec,
    Approval,
    Decision,
    RunnerPod,
)
from agentrun.api.spec import MUTABLE_FIELDS, MUTABLE_LIMITS
from agentrun.cluster.decisions import check_open
from agentrun.errors import Forbidden, Rejected

Body = dict[str, Any]

CLUSTER_ONLY = {
    name: field.alias or name
    for name, field in RunnerPod.model_fields.items()
    if name not in ("labels", "annotations", "env", "termination_grace_period_seconds")
}
"""Fields of ``spec.pod`` that only a cluster obeys, with their names in a manifest."""


def check_local(run: AgentRun) -> None:
    """What a cluster could do and a state folder cannot is refused, not waited for."""
    doing = {"attempted": "apply AgentRun"}
    if run.spec.controller_name:
        raise Rejected(
            "spec.controllerName: names an installation in a cluster, and local mode is none",
            advice="Leave it out, or use kubectl-agentrun",
            **doing,
        )
    for index, server in enumerate(run.spec.tool_servers):
        if server.image is not None:
            raise Rejected(
                f"spec.toolServers[{index}].image: {server.name} is an image, and local mode runs "
                "no images",
                advice="Give it as command or url, or run it in a cluster",
                **doing,
            )


def only_in_clusters(spec: AgentRunSpec) -> tuple[str, ...]:
    """Given fields that shape a pod and mean nothing to child processes."""
    pod = [f"spec.pod.{CLUSTER_ONLY[name]}" for name in CLUSTER_ONLY if getattr(spec.pod, name)]
    sidecars = [
        f"spec.toolServers[{index}].workspace.{name}"
        for index, server in enumerate(spec.tool_servers)
        for name in ("image", "resources")
        if server.workspace is not None and getattr(server.workspace, name)
    ]
    return (*pod, *sidecars)


def check_update(old: AgentRun, new: AgentRun) -> None:
    """Only what may change has changed, and a cancellation is not taken back."""
    if old.spec.cancel and not new.spec.cancel:
        raise _refused(old, "spec.cancel: a cancelled run stays cancelled")
    if _frozen(old.spec) != _frozen(new.spec):
        raise _refused(
            old,
            "spec is immutable except suspend, cancel, ttlSecondsAfterFinished and the budgets",
            advice="Delete the run first, or give the new one another name",
        )


def reapplied(old: AgentRun, manifest: AgentRun) -> AgentRun:
    """The stored run after the same manifest was applied again: what the manifest says of the
    changeable fields holds, what it does not mention stays (as with ``kubectl apply``)."""
    keep = old.spec.model_dump(include={*MUTABLE_FIELDS, "requested_by"}, exclude_unset=True)
    said = manifest.spec.model_dump(include={*MUTABLE_FIELDS}, exclude_unset=True)
    limits = manifest.spec.limits.model_copy(
        update={
            **old.spec.limits.model_dump(include={*MUTABLE_LIMITS}, exclude_unset=True),
            **manifest.spec.limits.model_dump(include={*MUTABLE_LIMITS}, exclude_unset=True),
        }
    )
    update: dict[str, Any] = {**keep, **said}
    if limits.model_fields_set:
        update["limits"] = limits
    return old.model_copy(update={"spec": manifest.spec.model_copy(update=update)})


def check_decision(
    approval: Approval,
    decision: Decision,
    answer: str,
    user: str,
    groups: Collection[str],
) -> None:
    """Decided once, while it is open, with what fits its scope, by somebody who may."""
    check_open(approval)
    spec = approval.spec
    doing = {
        "attempted": "decide",
        "on": f"{approval.metadata.namespace}/{approval.metadata.name}",
    }
    fitting = DECISIONS[spec.scope]
    if decision not in fitting:
        raise Rejected(f"a {spec.scope} approval takes {' or '.join(fitting)}", **doing)
    if (decision in ANSWERED) != bool(answer):
        needs = "needs an answer" if decision in ANSWERED else "takes no answer"
        raise Rejected(f"{decision} {needs}", **doing)
    policy = spec.policy
    if policy.not_user and policy.not_user == user:
        raise Forbidden("whoever started the run may not decide", **doing)
    if (policy.users or policy.groups) and not (
        user in policy.users or set(policy.groups) & set(groups)
    ):
        raise Forbidden("its policy names other approvers", **doing)


def merged(spec: Mapping[str, Any], changes: Mapping[str, Any]) -> Body:
    """JSON merge patch: null removes, objects merge, everything else replaces."""
    result = dict(spec)
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            result[name] = merged(result.get(name) or {}, value)
        else:
            result[name] = value
    return result


def parsed_run(body: Mapping[str, Any]) -> AgentRun:
    """A run from its wire form; Rejected names the field."""
    try:
        return AgentRun.model_validate(body)
    except ValidationError as error:
        raise rejected(error) from None


def rejected(error: ValidationError) -> Rejected:
    """The first problem, without the value: manifests hold prompts."""
    first = error.errors(include_input=False, include_url=False)[0]
    return Rejected(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}")


def _frozen(spec: AgentRunSpec) -> Body:
    """The spec, defaults filled in, without what may change."""
    return spec.model_dump(
        exclude={**dict.fromkeys(MUTABLE_FIELDS, True), "limits": {*MUTABLE_LIMITS}}
    )


def _refused(run: AgentRun, message: str, advice: str = "") -> Rejected:
    return Rejected(
        message,
        attempted="update AgentRun",
        on=f"{run.metadata.namespace}/{run.metadata.name}",
        advice=advice,
    )
