"""What the attempt hears of its adapters."""

from __future__ import annotations

import pytest
from tests.runner.adapters.rawhttp import dropped, raw_server
from tests.runner.adapters.replies import request

from agentrun.api import AgentRunSpec
from agentrun.errors import ModelUnavailable
from agentrun.runner.adapters import RealAdapters
from agentrun.runner.clock import Clock
from agentrun.runner.environ import Settings
from agentrun.runner.observer import Observer

SPEC = AgentRunSpec.model_validate(
    {"prompt": "go", "agents": [{"name": "a"}], "model": {"name": "m", "maxRetries": 3}}
)


async def test_a_provider_that_is_tried_again_for_long_does_not_cost_the_lease() -> None:
    """Each try is bounded: the loop lives, and a renewal held back would look like a lost node."""
    waits: list[float] = []
    marks: list[int] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with raw_server(dropped) as server:
        settings = Settings("run", 1, "pod", "", "", model_url=server.url)
        adapters = RealAdapters(settings, Clock(sleep=sleep), Observer())
        models = adapters.models(SPEC, lambda: True, lambda: marks.append(len(waits)))
        with pytest.raises(ModelUnavailable):
            await models.of("a").complete(request())
        await models.close()

    assert len(waits) == 3
    assert marks == [0, 1, 2]
