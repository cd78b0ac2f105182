"""Opening the tool servers of a spec."""

from __future__ import annotations

import asyncio
import random as chance
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentrun.api import AgentRunSpec
from agentrun.runner.tools.port import Clock, Random, Sleep, ToolServers
from agentrun.runner.tools.server import Patience
from agentrun.runner.tools.servers import Servers
from agentrun.runner.tools.targets import Target, target

PATIENCE = 5.0
"""Seconds. The loop has more patience than that, and says so; this is for a sidecar that is just
about to listen."""


def open_tools(
    spec: AgentRunSpec,
    *,
    environ: Mapping[str, str],
    workspace_socket: str | Path | None,
    clock: Clock = time.monotonic,
    sleep: Sleep = asyncio.sleep,
    random: Random = chance.random,
    patience: float = PATIENCE,
) -> ToolServers:
    """The tool servers of ``spec``. Costs nothing until one is used.

    ``environ`` has the values from Secrets, by the names in :mod:`agentrun.cluster.environment`.
    Raises InvalidSpec when one is missing.
    """
    socket = Path(workspace_socket) if workspace_socket else None
    targets = [target(server, environ, socket) for server in spec.tool_servers]
    return open_targets(targets, clock=clock, sleep=sleep, random=random, patience=patience)


def open_targets(
    targets: Iterable[Target],
    *,
    clock: Clock = time.monotonic,
    sleep: Sleep = asyncio.sleep,
    random: Random = chance.random,
    patience: float = PATIENCE,
) -> ToolServers:
    """The same for servers that are known otherwise."""
    return Servers(targets, Patience(clock, sleep, random, patience))
