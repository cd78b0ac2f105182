"""Where each tool server of a spec is, and what is sent to it besides the calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from agentrun.api import Persistence, ToolServer
from agentrun.api.tools import DEFAULT_PATH, DEFAULT_PORT
from agentrun.cluster.environment import header_variable, server_variable
from agentrun.errors import InvalidSpec
from agentrun.runner.hosts import is_local


class Kind(Enum):
    """How a server is reached."""

    REMOTE = "remote"
    SIDECAR = "sidecar"
    CHILD = "child"
    WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class Target:
    """One server. What may be secret is not shown."""

    name: str
    kind: Kind
    url: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    socket: Path | None = None
    command: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float = 60.0
    persistence: Persistence | None = None

    @property
    def recorded(self) -> bool:
        """Whether the server's files are part of the run."""
        return self.persistence is Persistence.RECORD

    @property
    def trust_env(self) -> bool:
        """Proxies are for the outside, never for this machine."""
        host = urlsplit(self.url).hostname or ""
        return self.kind is Kind.REMOTE and not is_local(host)


def target(server: ToolServer, environ: Mapping[str, str], socket: Path | None) -> Target:
    """``environ`` holds the values that come from Secrets, by the names that the operator gives."""
    seconds = float(server.timeout_seconds)
    if server.url is not None:
        names = (header_variable(server.name, at) for at in range(len(server.headers_from)))
        headers = tuple(
            (header.name, _given(server, environ, name))
            for header, name in zip(server.headers_from, names, strict=True)
        )
        return Target(server.name, Kind.REMOTE, server.url, headers, seconds=seconds)
    if server.image is not None:
        url = f"http://127.0.0.1:{server.port or DEFAULT_PORT}{server.path or DEFAULT_PATH}"
        return Target(server.name, Kind.SIDECAR, url, seconds=seconds)
    if server.command is not None:
        env = {
            entry.name: entry.value
            if entry.value_from is None
            else _given(server, environ, server_variable(server.name, entry.name))
            for entry in server.env
        }
        return Target(
            server.name, Kind.CHILD, command=tuple(server.command), env=env, seconds=seconds
        )
    return Target(
        server.name,
        Kind.WORKSPACE,
        "http://localhost:1/mcp",  # the SDK's guard against DNS rebinding wants a port in the Host
        socket=socket,
        seconds=seconds,
        persistence=server.workspace.persistence if server.workspace else None,
    )


def _given(server: ToolServer, environ: Mapping[str, str], variable: str) -> str:
    if variable not in environ:
        raise InvalidSpec(
            f"the value of {variable} was not given to this pod",
            attempted="open the tool servers",
            on=server.name,
        )
    return environ[variable]
