"""The SDK of the model, imported when it is first asked for; see :mod:`agentrun.runner.importing`."""

from __future__ import annotations

from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING

from agentrun.runner.importing import imported

if TYPE_CHECKING:
    from agentrun.runner.model.sdk import Sdk


@cache
def preload() -> Future[type[Sdk]]:
    """Start the import; everybody gets the same future. Safe to call at any time, from any thread."""
    return imported("anthropic", _sdk)


def _sdk() -> type[Sdk]:
    from agentrun.runner.model.sdk import Sdk

    return Sdk
