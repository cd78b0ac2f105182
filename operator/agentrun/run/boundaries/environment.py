"""What the tool servers offer, and servers that lost their state."""

from __future__ import annotations

from collections.abc import Sequence

from agentrun.run.exact import unfit
from agentrun.run.records import EnvironmentReset, ToolOffer, ToolsetOffered
from agentrun.run.state import State
from agentrun.run.values import Boundary


def tools_offered(state: State, agent: str, offers: Sequence[ToolOffer]) -> Boundary | None:
    """The tools of an agent's later requests; None when that is what is recorded already."""
    tools = tuple(map(_fit, offers))
    if agent in state.toolsets and state.toolsets[agent] == tools:
        return None
    record = ToolsetOffered(agent=agent, tools=tools)
    return Boundary("toolset/offered", None, (record,), strict=True)


def environment_reset(server: str, why: str) -> Boundary:
    """A server lost what it held; the model is told with its next message."""
    record = EnvironmentReset(server=server, why=why)
    return Boundary("environment/reset", None, (record,), strict=True)


def _fit(offer: ToolOffer) -> ToolOffer:
    """A schema that cannot be recorded says nothing, rather than keeping the run from starting."""
    if unfit(offer.input_schema) is None and unfit(offer.annotations) is None:
        return offer
    return offer.model_copy(update={"input_schema": {"type": "object"}, "annotations": None})
