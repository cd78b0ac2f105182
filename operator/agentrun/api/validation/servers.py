"""Tool servers and the policies on their tools."""

from __future__ import annotations

from typing import Final

from agentrun.api.globs import matches, matches_server
from agentrun.api.spec import AgentRunSpec
from agentrun.api.tools import EnvVar, OnUnknown, ToolPolicy, ToolServer
from agentrun.api.validation.paths import Problems, duplicates

_KINDS: Final = ("url", "image", "command", "workspace")

_BELONGS: Final = {
    "headersFrom": ("headers_from", ("url",)),
    "port": ("port", ("image",)),
    "path": ("path", ("image",)),
    "args": ("args", ("image",)),
    "resources": ("resources", ("image",)),
    "env": ("env", ("image", "command")),
}
"""Fields that mean something for some kinds of server only; elsewhere they would be ignored."""


def server_problems(
    spec: AgentRunSpec, *, commands_allowed: bool, workspace_with_images: bool
) -> Problems:
    """Every server is of one kind, and the kinds of one run do not undermine each other."""
    servers = spec.tool_servers
    for name in duplicates(server.name for server in servers):
        yield f"spec.toolServers: the name {name} is used more than once"
    for index, server in enumerate(servers):
        where = f"spec.toolServers[{index}]"
        yield from _one_server(server, where)
        if server.command is not None and not commands_allowed:
            yield (
                f"{where}.command: child processes are for local mode; "
                "the operator allows none here, use image"
            )
    if sum(server.workspace is not None for server in servers) > 1:
        yield "spec.toolServers: more than one workspace"
    both = any(s.workspace for s in servers) and any(s.image is not None for s in servers)
    if both and not workspace_with_images:
        yield (
            "spec.toolServers: workspace and image together are refused, because a shell could "
            "reach the other server past every gate"
        )


def policy_problems(spec: AgentRunSpec) -> Problems:
    """Every policy is about servers that exist, and says how to verify when it wants to."""
    names = [server.name for server in spec.tool_servers]
    for index, policy in enumerate(spec.tool_policies):
        where = f"spec.toolPolicies[{index}]"
        for position, glob in enumerate(policy.tools):
            if not matches_server(glob, names):
                server = glob.partition(".")[0]
                yield f"{where}.tools[{position}]: no tool server is named {server}"
        yield from _verify_problems(policy, names, where)


def env_problems(env: tuple[EnvVar, ...], where: str) -> Problems:
    """Every variable has one name and one value."""
    for name in duplicates(variable.name for variable in env):
        yield f"{where}: {name} is given more than once"
    for index, variable in enumerate(env):
        source = variable.value_from
        if source is None:
            continue
        if variable.value:
            yield f"{where}[{index}]: give one of value and valueFrom"
        if (source.secret_key_ref is None) == (source.config_map_key_ref is None):
            yield f"{where}[{index}].valueFrom: give one of secretKeyRef and configMapKeyRef"


def _one_server(server: ToolServer, where: str) -> Problems:
    given = [kind for kind in _KINDS if getattr(server, kind) is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        yield f"{where}: give exactly one of url, image, command and workspace; found {found}"
        return
    for field, (attribute, kinds) in _BELONGS.items():
        if getattr(server, attribute) and given[0] not in kinds:
            yield f"{where}.{field}: only with {' or '.join(kinds)}"
    for name in duplicates(header.name.lower() for header in server.headers_from):
        yield f"{where}.headersFrom: {name} is given more than once"
    yield from env_problems(server.env, f"{where}.env")


def _verify_problems(policy: ToolPolicy, servers: list[str], where: str) -> Problems:
    verifies = policy.on_unknown is OnUnknown.VERIFY
    if verifies != bool(policy.verify_with):
        yield f"{where}.verifyWith: goes with onUnknown Verify, and only with it"
    if not policy.verify_with:
        return
    server, _, tool = policy.verify_with.partition(".")
    if server not in servers:
        yield f"{where}.verifyWith: no tool server is named {server}"
    if any(glob == policy.verify_with or matches(glob, server, tool) for glob in policy.tools):
        yield f"{where}.verifyWith: is itself one of the tools to verify"
