"""What the tool servers offer, and servers that lost their state."""

from __future__ import annotations

from collections.abc import Sequence

from agentrun.run.records import EnvironmentReset, ToolOffer, ToolsetOffered
from agentrun.run.state import State
from agentrun.run.values import Boundary


def tools_offered(state: State, agent: str, offers: Sequence[ToolOffer]) -> Boundary | None:
    """The tools of an agent's later requests; None when that is what is recorded already."""
    if agent in state.toolsets and state.toolsets[agent] == tuple(offers):
        return None
    record = ToolsetOffered(agent=agent, tools=tuple(offers))
    return Boundary("toolset/offered", None, (record,), strict=True)


def environment_reset(server: str, why: str) -> Boundary:
    """A server lost what it held; the model is told with its next message."""
    record = EnvironmentReset(server=server, why=why)
    return Boundary("environment/reset", None, (record,), strict=True)
