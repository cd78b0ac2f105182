"""A running scripted model and the provider's own client talking to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

from agentrun.devmodel import load_script, open_server
from agentrun.devmodel.server import ModelServer

Start = Callable[..., ModelServer]
Connect = Callable[[ModelServer], AsyncAnthropic]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server for a list of replies, as many as a test wants."""
    with ExitStack() as stack:

        def started(*replies: dict[str, Any], log: Path | None = None) -> ModelServer:
            path = tmp_path / "script.json"
            path.write_text(json.dumps({"replies": list(replies)}))
            return stack.enter_context(open_server(load_script(path), log=log))

        yield started


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """An anthropic client for a server, without retries of its own."""
    clients: list[AsyncAnthropic] = []

    def connected(server: ModelServer) -> AsyncAnthropic:
        client = AsyncAnthropic(
            api_key="k",
            base_url=f"http://127.0.0.1:{server.port}",
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(trust_env=False),
        )
        clients.append(client)
        return client

    yield connected
    for client in clients:
        await client.close()
