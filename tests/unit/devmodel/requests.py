"""Requests as the runner makes them, and a stream put back together."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from anthropic import AsyncAnthropic, AsyncStream

HELLO = [{"role": "user", "content": "hello"}]


@dataclass(frozen=True)
class Streamed:
    """The events of a stream and what they add up to."""

    events: list[dict[str, Any]]

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def deltas(self, index: int, field: str) -> list[str]:
        found = [e["delta"] for e in self.events if e.get("index") == index and "delta" in e]
        return [delta[field] for delta in found if field in delta]

    def joined(self, index: int, field: str) -> str:
        return "".join(self.deltas(index, field))

    def blocks(self) -> list[dict[str, Any]]:
        return [e["content_block"] for e in self.events if e["type"] == "content_block_start"]


async def stream(client: AsyncAnthropic, messages: Any = HELLO, **more: Any) -> Streamed:
    """One streamed request, read as raw events."""
    asked: dict[str, Any] = {"model": "m1", "max_tokens": 4096, "messages": messages, **more}
    reply = await client.messages.create(stream=True, **asked)
    raw = AsyncStream.raw_events(reply.response)
    return Streamed([json.loads(event.data) async for event in raw])


async def ask(client: AsyncAnthropic, messages: Any = HELLO, **more: Any) -> dict[str, Any]:
    """One request without streaming, as the exact JSON that came back."""
    asked: dict[str, Any] = {"model": "m1", "max_tokens": 4096, "messages": messages, **more}
    raw = await client.messages.with_raw_response.create(**asked)
    answer: dict[str, Any] = json.loads(raw.http_response.content)
    return answer
