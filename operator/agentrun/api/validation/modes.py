"""What the run is: exactly one mode, and agents, models and tools that exist."""

from __future__ import annotations

from agentrun.api.agent import AgentSpec
from agentrun.api.globs import matches_server
from agentrun.api.model import ModelSpec, Provider
from agentrun.api.spec import MODES, AgentRunSpec
from agentrun.api.validation.paths import Problems, duplicates, wire_name

_ALL_MODES = ", ".join(wire_name(mode) for mode in MODES)


def mode_problems(spec: AgentRunSpec) -> Problems:
    """Exactly one of the seven modes, with what belongs to it and nothing else."""
    given = [wire_name(mode) for mode in spec.modes]
    if len(given) != 1:
        yield f"spec: give exactly one of {_ALL_MODES}; found {' and '.join(given) or 'none'}"
        return
    mode = given[0]
    if mode not in ("forkFrom", "planFrom") and not spec.agents:
        yield "spec.agents: at least one agent is needed"
    if mode != "goal":
        if spec.plan_only:
            yield "spec.planOnly: only with goal"
        if spec.coordinator:
            yield "spec.coordinator: only with goal"
    if mode not in ("prompt", "promptFrom"):
        if spec.agent:
            yield "spec.agent: only with prompt or promptFrom"
    elif len(spec.agents) > 1 and not spec.agent:
        yield "spec.agent: needed, because spec.agents has more than one"
    if spec.swarm and (spec.swarm.prompt is None) == (spec.swarm.prompt_from is None):
        yield "spec.swarm: give exactly one of prompt and promptFrom"
    plan = spec.plan_from
    if plan and (plan.config_map_key_ref is None) == (plan.agent_run_ref is None):
        yield "spec.planFrom: give exactly one of configMapKeyRef and agentRunRef"


def agent_problems(spec: AgentRunSpec) -> Problems:
    """Agents are told apart by name, and every name of an agent is one of theirs."""
    names = {agent.name for agent in spec.agents}
    for name in duplicates(agent.name for agent in spec.agents):
        yield f"spec.agents: the name {name} is used more than once"
    if spec.agent and spec.agent not in names:
        yield f"spec.agent: no agent is named {spec.agent}"
    if spec.swarm and spec.swarm.entry not in names:
        yield f"spec.swarm.entry: no agent is named {spec.swarm.entry}"
    for index, agent in enumerate(spec.agents):
        where = f"spec.agents[{index}]"
        if agent.instructions and agent.instructions_from:
            yield f"{where}: give one of instructions and instructionsFrom"
        for other in duplicates(agent.delegates):
            yield f"{where}.delegates: {other} is named more than once"
        for other in agent.delegates:
            if other not in names:
                yield f"{where}.delegates: no agent is named {other}"
            elif other == agent.name:
                yield f"{where}.delegates: {other} cannot be its own delegate"
        if agent.thinking_tokens is not None and agent.temperature is not None:
            yield f"{where}.temperature: not with thinkingTokens, as the provider allows none then"
        yield from _glob_problems(spec, agent, where)
        yield from _model_problems(spec.model_of(agent), where)


def _glob_problems(spec: AgentRunSpec, agent: AgentSpec, where: str) -> Problems:
    servers = [server.name for server in spec.tool_servers]
    for position, glob in enumerate(agent.tools):
        if not matches_server(glob, servers):
            server = glob.partition(".")[0]
            yield f"{where}.tools[{position}]: no tool server is named {server}"


def _model_problems(model: ModelSpec, where: str) -> Problems:
    if not model.name:
        yield f"{where}.model: no model; set spec.model.name or the agent's own model.name"
    if model.bedrock and model.provider is not Provider.BEDROCK:
        yield f"{where}.model.bedrock: only with provider Bedrock"
    if model.vertex and model.provider is not Provider.VERTEX:
        yield f"{where}.model.vertex: only with provider Vertex"
