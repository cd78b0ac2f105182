"""The models of a run's agents, opened when an agent first asks its own."""

from __future__ import annotations

from collections.abc import Callable

from agentrun.api import AgentRunSpec, ModelSpec
from agentrun.run.request import agent_of
from agentrun.runner.model.port import Model


class AgentModels:
    """One model per agent. ``open_one`` is :func:`agentrun.runner.model.open_model` with its keys."""

    def __init__(self, spec: AgentRunSpec, open_one: Callable[[ModelSpec], Model]) -> None:
        self._spec = spec
        self._open_one = open_one
        self._opened: dict[str, Model] = {}

    def of(self, agent: str) -> Model:
        """The model of an agent; InvalidSpec when it cannot be opened."""
        if agent not in self._opened:
            merged = self._spec.model_of(agent_of(self._spec, agent))
            self._opened[agent] = self._open_one(merged)
        return self._opened[agent]

    async def close(self) -> None:
        """Close those that were opened."""
        for model in self._opened.values():
            await model.close()
