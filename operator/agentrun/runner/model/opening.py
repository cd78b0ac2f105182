"""Opening the model that a spec names."""

from __future__ import annotations

import asyncio
import random as chance
import time

from agentrun.api import ModelSpec
from agentrun.runner.model.backoff import Backoff
from agentrun.runner.model.port import Clock, Model, ModelNote, Observe, Random, Sleep
from agentrun.runner.model.retrying import RetryingModel
from agentrun.runner.model.settings import Deadlines, settings

BACKOFF = Backoff()
DEADLINES = Deadlines()


def _unheard(note: ModelNote) -> None:
    """Nobody observes."""


def open_model(
    spec: ModelSpec,
    *,
    api_key: str | None,
    url_override: str | None = None,
    ca_bundle: str | None = None,
    clock: Clock = time.monotonic,
    sleep: Sleep = asyncio.sleep,
    random: Random = chance.random,
    observe: Observe = _unheard,
    backoff: Backoff = BACKOFF,
    deadlines: Deadlines = DEADLINES,
) -> Model:
    """The model of ``spec`` (an agent's overrides already merged). Costs nothing until it is used.

    ``url_override`` wins over ``spec.base_url``. ``ca_bundle`` is PEM text or a path: only these
    certificates are then trusted. Raises InvalidSpec when the bundle cannot be read or the provider
    needs a package that is not installed.
    """
    return RetryingModel(
        settings(
            spec,
            api_key=api_key,
            url_override=url_override,
            ca_bundle=ca_bundle,
            deadlines=deadlines,
        ),
        retries=spec.max_retries,
        backoff=backoff,
        clock=clock,
        sleep=sleep,
        random=random,
        observe=observe,
    )
