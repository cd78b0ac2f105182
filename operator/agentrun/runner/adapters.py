"""The real adapters: Postgres, the model provider, the tool servers. Nothing is imported before its time.

The SDKs of model and tools cost seconds of CPU, so their import starts beside the claim, and only for
what the attempt will use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentrun.api import AgentRunSpec, ModelSpec
from agentrun.cluster import environment as names
from agentrun.runner import model as model_adapter
from agentrun.runner.clock import Clock
from agentrun.runner.environ import Settings
from agentrun.runner.model import Model, ModelNote
from agentrun.runner.models import AgentModels
from agentrun.runner.observer import Observer

if TYPE_CHECKING:
    from agentrun.runner.tools.port import ToolServers

HOLD = 1.0
"""Seconds between looks while a model's next try must not leave."""


class RealAdapters:
    """:class:`agentrun.runner.lifecycle.Adapters` for a pod."""

    def __init__(self, settings: Settings, clock: Clock, observer: Observer) -> None:
        self._settings = settings
        self._clock = clock
        self._observer = observer

    def preload(self, spec: AgentRunSpec | None) -> None:
        """Model at once; tools once the spec says that there are any."""
        if spec is None:
            model_adapter.preload()
        elif spec.tool_servers:
            from agentrun.runner import tools as tool_adapter

            tool_adapter.preload()

    def models(
        self, spec: AgentRunSpec, may_send: Callable[[], bool], progress: Callable[[], None]
    ) -> AgentModels:
        """Keys and certificates by the names that the operator gave them."""

        async def sleep(seconds: float) -> None:
            """Between tries: the next one leaves only while the lease reaches."""
            await self._clock.sleep(seconds)
            while not may_send():
                await self._clock.sleep(HOLD)

        def heard(note: ModelNote) -> None:
            if note.what != "failed":
                progress()
            self._observer.model_note(note)

        def open_one(model: ModelSpec) -> Model:
            environ = self._settings.environ
            key = model.api_key_secret_ref
            bundle = model.ca_bundle
            return model_adapter.open_model(
                model,
                api_key=environ.get(names.api_key_variable(spec, key) if key else names.API_KEY),
                url_override=self._settings.model_url,
                ca_bundle=environ.get(names.ca_bundle_variable(spec, bundle.config_map_key_ref))
                if bundle
                else None,
                clock=self._clock.now,
                sleep=sleep,
                observe=heard,
            )

        return AgentModels(spec, open_one)

    def tools(self, spec: AgentRunSpec) -> ToolServers:
        """Addresses, headers and the workspace's socket, from the spec and the environment."""
        from agentrun.runner.tools import open_tools

        return open_tools(
            spec,
            environ=self._settings.environ,
            workspace_socket=self._settings.workspace_socket,
            clock=self._clock.now,
            sleep=self._clock.sleep,
        )
