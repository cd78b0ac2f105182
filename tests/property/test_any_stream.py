"""Whatever a model server streams: a reply that the run can be built on, or a broken stream."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentrun.run.conversation import problem
from agentrun.runner.model.faults import TryFailed
from agentrun.runner.model.reply import finish
from agentrun.runner.model.stream import Assembly

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
FIELDS = {
    "index": st.integers(-1, 2),
    "message": st.fixed_dictionaries({}, optional={"id": JSON, "model": JSON, "usage": JSON}),
    "content_block": st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking"]) | JSON},
        optional={
            "id": st.sampled_from(["a", "b"]) | JSON,
            "name": st.just("ops__restart") | JSON,
            "input": JSON,
            "text": JSON,
            "citations": JSON,
        },
    ),
    "delta": st.fixed_dictionaries(
        {},
        optional={
            "text": JSON,
            "partial_json": st.sampled_from(["{", "}", "{}"]) | JSON,
            "citation": JSON,
            "citations": JSON,
            "stop_reason": st.sampled_from(["end_turn", "tool_use", "max_tokens"]) | JSON,
        },
    ),
    "usage": JSON,
    "error": JSON,
}
EVENTS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "message_start",
                "content_block_start",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "ping",
            ]
        )
        | JSON
    },
    optional={name: field | JSON for name, field in FIELDS.items()},
)


@given(st.lists(EVENTS, max_size=6), st.booleans())
def test_a_malformed_stream_is_never_an_error_of_ours(
    events: list[dict[str, Any]], repair: bool
) -> None:
    opening = {"type": "message_start", "message": {}}
    ending = [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    assembly = Assembly()
    try:
        for event in (opening, *events, *ending):
            assembly.take(None, json.dumps(event))
        reply = finish(assembly, repair=repair)
    except (TryFailed, ValueError):
        return
    user = {"role": "user", "content": "go"}
    assert problem([user, {"role": "assistant", "content": reply.content}]) is None
