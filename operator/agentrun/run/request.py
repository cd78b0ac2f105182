"""The exact request that continues a conversation.

A function of the state and the captured spec alone, so what attempt 2 sends is byte for byte what
attempt 1 would have sent, and the provider's prompt cache still hits.
"""

from __future__ import annotations

from agentrun.api import AgentRunSpec, AgentSpec
from agentrun.errors import CheckpointCorrupt
from agentrun.run.conversation import check as check_conversation
from agentrun.run.exact import exact_json, sha256_hex
from agentrun.run.fold.refuse import conversation_of
from agentrun.run.messages import with_notices
from agentrun.run.records import Json
from agentrun.run.sendable import sendable
from agentrun.run.state import State
from agentrun.run.surrogates import mend_json
from agentrun.run.values import ModelRequest

_CACHE: Json = {"type": "ephemeral"}


def agent_of(spec: AgentRunSpec, name: str) -> AgentSpec:
    """The agent by name; the spec was checked before the run was opened."""
    for agent in spec.agents:
        if agent.name == name:
            return agent
    raise CheckpointCorrupt("no such agent in the captured spec", attempted="find it", on=name)


def build_request(
    state: State, spec: AgentRunSpec, path: str, notices: int | None = None
) -> ModelRequest:
    """Bytes for ``POST /v1/messages`` and their hashes. CheckpointCorrupt for a bad conversation.

    ``notices``: only so many of the pending ones, to build again what was sent before others came.
    """
    conversation = conversation_of(state, path)
    check_conversation(conversation.messages, path, open_round=False)
    given = conversation.notices[:notices]
    messages = with_notices(conversation.messages, given) if given else conversation.messages
    agent = agent_of(spec, conversation.agent)
    system = _system(agent)
    tools = _tools(state, agent)
    model = spec.model_of(agent).name
    body: dict[str, Json] = {"model": model, "max_tokens": agent.max_output_tokens}
    if system:
        body["system"] = system
    if tools:
        body["tools"] = tools
    body["messages"] = _with_breakpoints(sendable(messages))
    if agent.temperature is not None:
        body["temperature"] = float(agent.temperature)
    if agent.thinking_tokens is not None:  # the provider counts thinking in max_tokens
        body["max_tokens"] += agent.thinking_tokens
        body["thinking"] = {"type": "enabled", "budget_tokens": agent.thinking_tokens}
    body["stream"] = True
    exact = mend_json(exact_json(body))[0]
    return ModelRequest(
        model,
        exact,
        sha256_hex(exact),
        sha256_hex(exact_json(system)),
        sha256_hex(exact_json(tools)),
        len(given),
    )


def _system(agent: AgentSpec) -> Json:
    if not agent.instructions or agent.instructions.isspace():
        return []
    return [{"type": "text", "text": agent.instructions, "cache_control": _CACHE}]


def _tools(state: State, agent: AgentSpec) -> list[Json]:
    tools: list[Json] = [
        {
            "name": offer.wire,
            "description": offer.description,
            "input_schema": offer.input_schema,
        }
        for offer in state.toolsets.get(agent.name, ())
    ]
    if tools:
        tools[-1] = {**tools[-1], "cache_control": _CACHE}
    return tools


def _with_breakpoints(messages: list[Json]) -> list[Json]:
    """The conversation with a cache breakpoint on the last two user messages (four in all)."""
    users = [index for index, message in enumerate(messages) if message["role"] == "user"][-2:]
    return [
        _marked(message) if index in users else message for index, message in enumerate(messages)
    ]


def _marked(message: Json) -> Json:
    content = message["content"]
    if not isinstance(content, list) or not content or not isinstance(content[-1], dict):
        return message
    return {**message, "content": [*content[:-1], {**content[-1], "cache_control": _CACHE}]}
