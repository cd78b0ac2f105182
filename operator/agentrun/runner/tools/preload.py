"""The SDK of the tools, imported when it is first asked for; see :mod:`agentrun.runner.importing`."""

from __future__ import annotations

from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING

from agentrun.runner.importing import imported

if TYPE_CHECKING:
    from agentrun.runner.tools.connection import Connection


@cache
def preload() -> Future[type[Connection]]:
    """Start the import; everybody gets the same future. Safe to call at any time, from any thread."""
    return imported("mcp", _connection)


def _connection() -> type[Connection]:
    from agentrun.runner.tools.connection import Connection

    return Connection
