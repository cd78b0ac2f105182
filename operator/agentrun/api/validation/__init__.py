"""Checks on a manifest that its schema cannot make.

The CRD's rules cover shape, unions and immutability. What needs looking across lists is checked
here, by the operator and by local mode alike, and ends in ``InvalidSpec``: the same checks in CEL
break the API server's cost budget (H57). A glob that matches none of the tools which a server really
offers can only be found by the runner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrun.api.resource import AgentRun
from agentrun.api.validation.manifest import name_problem, one_message, parse
from agentrun.api.validation.modes import agent_problems, mode_problems
from agentrun.api.validation.pending import PENDING, pending_problems
from agentrun.api.validation.policy import (
    ANY,
    PROXY_VARIABLES,
    AdminPolicy,
    policy_violations,
    reserved_problems,
)
from agentrun.api.validation.safety import price_problems, recording_problems
from agentrun.api.validation.servers import policy_problems, server_problems
from agentrun.api.validation.tasks import task_problems
from agentrun.errors import InvalidSpec

DEFAULT_POLICY: Final = AdminPolicy()


def validate_manifest(
    obj: object, *, local: bool = False, policy: AdminPolicy = DEFAULT_POLICY
) -> AgentRun:
    """The run that ``obj`` describes, if it can be run as written by this installation.

    ``local`` allows child processes as tool servers. Raises ``InvalidSpec`` with one message that
    names every field at fault as the user wrote it.
    """
    run = parse(obj)
    problems = [
        *filter(None, [name_problem(run)]),
        *check_spec(
            run,
            pricing=policy.pricing,
            command_servers_allowed=local or policy.command_servers,
            workspace_with_images_allowed=policy.workspace_with_images,
        ),
        *policy_violations(run.spec, policy),
        *pending_problems(run.spec),
    ]
    if problems:
        raise InvalidSpec(one_message(problems))
    return run


def check_spec(
    run: AgentRun,
    *,
    pricing: Mapping[str, object],
    command_servers_allowed: bool,
    workspace_with_images_allowed: bool = False,
) -> tuple[str, ...]:
    """Every problem that shows only when lists are compared; empty if there is none.

    ``pricing`` is the operator's table by model name.
    """
    spec = run.spec
    return (
        *mode_problems(spec),
        *agent_problems(spec),
        *server_problems(
            spec,
            commands_allowed=command_servers_allowed,
            workspace_with_images=workspace_with_images_allowed,
        ),
        *policy_problems(spec),
        *task_problems(spec),
        *recording_problems(spec),
        *price_problems(spec, pricing),
        *_schema_problems(run),
        *reserved_problems(spec),
    )


def _schema_problems(run: AgentRun) -> tuple[str, ...]:
    if all(agent.output_schema is None for agent in run.spec.agents):
        return ()
    from agentrun.api.validation.schemas import (
        schema_problems,
    )  # late: jsonschema is slow to import

    return tuple(schema_problems(run.spec))


__all__ = [
    "ANY",
    "DEFAULT_POLICY",
    "PENDING",
    "PROXY_VARIABLES",
    "AdminPolicy",
    "check_spec",
    "pending_problems",
    "validate_manifest",
]
