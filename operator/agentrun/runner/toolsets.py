"""From what servers offer to what an agent is offered: filtered by its globs, named for the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentrun.api import AgentRunSpec
from agentrun.api.globs import matches, matches_server
from agentrun.run.conversation import tool_uses
from agentrun.run.records import ToolOffer
from agentrun.run.request import agent_of
from agentrun.run.state import CallPhase, State
from agentrun.run.wire import wire_names
from agentrun.runner.tools.port import OfferedTool


def servers_of(spec: AgentRunSpec, agent: str) -> tuple[str, ...]:
    """The servers that an agent's globs can reach, in the order of the spec."""
    globs = agent_of(spec, agent).tools
    return tuple(
        server.name
        for server in spec.tool_servers
        if any(matches_server(glob, (server.name,)) for glob in globs)
    )


def unmatched(spec: AgentRunSpec, agent: str, tools: Iterable[OfferedTool]) -> str | None:
    """The first glob that no offered tool matches: the agent would miss what it was promised."""
    offered = tuple(tools)
    for glob in agent_of(spec, agent).tools:
        if not any(matches(glob, tool.server, tool.name) for tool in offered):
            return glob
    return None


def offers_for(
    spec: AgentRunSpec, agent: str, tools: Iterable[OfferedTool]
) -> tuple[ToolOffer, ...]:
    """The agent's tools: by server in the spec's order, then by name.

    The order is ours, so that a server that lists the same tools in another order is no difference.
    """
    globs = agent_of(spec, agent).tools
    chosen: dict[tuple[str, str], OfferedTool] = {}
    for tool in tools:
        if any(matches(glob, tool.server, tool.name) for glob in globs):
            chosen.setdefault((tool.server, tool.name), tool)
    rank = {server.name: index for index, server in enumerate(spec.tool_servers)}
    ordered = sorted(chosen, key=lambda key: (rank[key[0]], key[1]))
    names = wire_names(ordered)
    return tuple(_offer(chosen[key], names[key]) for key in ordered)


def merged_offers(
    state: State, spec: AgentRunSpec, agent: str, listed: Mapping[str, Sequence[OfferedTool]]
) -> tuple[ToolOffer, ...]:
    """The agent's tools where only some servers have been asked: the others offer what is recorded."""
    tools = [tool for server in listed.values() for tool in server]
    for offer in state.toolsets.get(agent, ()):
        server, _, name = offer.tool.partition(".")
        if server not in listed:
            tools.append(
                OfferedTool(server, name, offer.description, offer.input_schema, offer.annotations)
            )
    return offers_for(spec, agent, tools)


def used_before(state: State, server: str) -> bool:
    """Whether the run has a result of this server: it may have left something there."""
    prefix = f"{server}."
    wires = {
        offer.wire
        for offers in state.toolsets.values()
        for offer in offers
        if offer.tool.startswith(prefix)
    }
    for conversation in state.conversations.values():
        open_round = {id(conversation.messages[-1])} if conversation.calls else set()
        if any(
            c.phase is CallPhase.COMMITTED and c.tool.startswith(prefix) for c in conversation.calls
        ):
            return True
        for message in conversation.messages:
            if id(message) in open_round or message["role"] != "assistant":
                continue
            if any(block.get("name") in wires for block in tool_uses(message["content"])):
                return True
    return False


def _offer(tool: OfferedTool, wire: str) -> ToolOffer:
    return ToolOffer(
        tool=f"{tool.server}.{tool.name}",
        wire=wire,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=tool.annotations,
    )
