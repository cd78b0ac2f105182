"""The SDK of the tools, imported when it is first asked for; see :mod:`agentrun.runner.importing`."""

from __future__ import annotations

from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING

from agentrun.runner.importing import imported

if TYPE_CHECKING:
    from agentrun.runner.tools.link import Link


@cache
def preload() -> Future[type[Link]]:
    """Start the import; everybody gets the same future. Safe to call at any time, from any thread."""
    return imported("mcp", _link)


def _link() -> type[Link]:
    from agentrun.runner.tools.link import Link

    return Link
