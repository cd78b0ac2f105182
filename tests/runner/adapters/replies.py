"""Streams of the provider, event by event, and a model to receive them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from agentrun.api import ModelSpec
from agentrun.run.values import ModelRequest
from agentrun.runner.model import Deadlines, Model, ModelNote, open_model

Event = dict[str, Any]
DEADLINES = Deadlines(connect=10, quiet=20, total=60)
KEY = "sk-test-0123456789abcdef"


def start(**usage: Any) -> Event:
    message: Event = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m1",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 12, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def block(index: int, opening: Event, *deltas: Event) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": opening},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *parts: str) -> list[Event]:
    deltas = [{"type": "text_delta", "text": part} for part in parts]
    return block(index, {"type": "text", "text": ""}, *deltas)


def tool(index: int, *parts: str, id: str = "toolu_1", name: str = "ops__restart") -> list[Event]:  # noqa: A002
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block(index, {"type": "tool_use", "id": id, "name": name, "input": {}}, *deltas)


def stop(reason: str | None = "end_turn", **usage: Any) -> list[Event]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 40, **usage}},
        {"type": "message_stop"},
    ]


def says(*parts: str) -> list[Event]:
    """A whole reply of one text."""
    return [start(), *text(0, *(parts or ("hello",))), *stop()]


def request(**more: Any) -> ModelRequest:
    asked = {"model": "m1", "max_tokens": 64, "stream": True, "messages": [], **more}
    return exactly(json.dumps(asked).encode())


def exactly(body: bytes) -> ModelRequest:
    return ModelRequest("m1", body, hashlib.sha256(body).hexdigest(), "", "")


@dataclass
class Rig:
    """A model with no real waiting in it. ``waits`` are the seconds it would have slept."""

    model: Model
    waits: list[float] = field(default_factory=list)
    notes: list[ModelNote] = field(default_factory=list)

    def noted(self) -> list[str]:
        return [note.what for note in self.notes if note.what != "progress"]


def rig(
    url: str,
    *,
    retries: int = 2,
    key: str | None = KEY,
    deadlines: Deadlines = DEADLINES,
    base_url: str = "",
    sleep: Callable[[float], Awaitable[None]] | None = None,
    **more: Any,
) -> Rig:
    waits: list[float] = []
    notes: list[ModelNote] = []

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        if sleep is not None:
            await sleep(seconds)

    model = open_model(
        ModelSpec(name="m1", base_url=base_url, max_retries=retries),
        api_key=key,
        url_override=url or None,
        sleep=noted,
        random=lambda: 0.5,
        observe=notes.append,
        deadlines=deadlines,
        **more,
    )
    return Rig(model, waits, notes)
