"""One agent: its instructions, its model, the tools it may call and its own bounds."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, Strict

from agentrun.api.base import ApiModel, inline, rules, short_inline, unique
from agentrun.api.bounds import (
    INLINE_TEXT_MAX,
    AgentName,
    Flag,
    Opaque,
    Positive,
    Temperature,
    ToolGlob,
)
from agentrun.api.meta import TextSource
from agentrun.api.model import ModelOverride

Instructions = Annotated[str, Field(max_length=INLINE_TEXT_MAX)]
Turns = Annotated[int, Strict(), Field(ge=1, le=100_000)]
OutputTokens = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
ThinkingTokens = Annotated[int, Strict(), Field(ge=1024, le=1_000_000)]
Capability = Annotated[str, Field(min_length=1, max_length=64)]


class ContextStrategy(StrEnum):
    """What is done when a conversation outgrows its window."""

    NONE = "None"
    SLIDING_WINDOW = "SlidingWindow"
    SUMMARIZE = "Summarize"
    COMPACT = "Compact"


class Context(ApiModel):
    """How long conversations are kept short enough."""

    strategy: ContextStrategy = Field(
        ContextStrategy.NONE, description="What is done when the conversation grows too long."
    )
    max_tokens: Positive | None = Field(
        None, description="Size of the conversation, in tokens, above which the strategy acts."
    )
    keep_turns: Turns | None = Field(None, description="Most recent turns that stay as they are.")


class AgentSpec(ApiModel):
    """One agent of the run."""

    model_config = ConfigDict(json_schema_extra=rules(short_inline("instructions")))

    name: AgentName = Field(description="Name of the agent, unique in the run.")
    instructions: Instructions = Field("", description="System prompt.", json_schema_extra=inline())
    instructions_from: TextSource | None = Field(
        None, description="System prompt from a ConfigMap, recorded once."
    )
    model: ModelOverride | None = Field(
        None, description="What this agent's model differs in from spec.model, field by field."
    )
    tools: Annotated[tuple[ToolGlob, ...], Field(max_length=64)] = Field(
        (), description="Tools it may call: server.tool, with * and ? as wildcards."
    )
    delegates: Annotated[tuple[AgentName, ...], Field(max_length=32)] = Field(
        (), description="Agents that this one may call as tools.", json_schema_extra=unique()
    )
    ask_human: Flag = Field(False, description="Offers the tool ask_human, answered by a person.")
    max_turns: Turns = Field(20, description="Model calls per conversation before its task ends.")
    max_tokens: Positive | None = Field(
        None, description="This agent's token budget in the run; absent: none."
    )
    max_output_tokens: OutputTokens = Field(
        4096, description="Output tokens per model call, besides those of thinking."
    )
    temperature: Temperature | None = Field(
        None,
        description='Sampling temperature as a decimal from "0" to "1"; absent: the model\'s. '
        "Not with thinkingTokens.",
    )
    thinking_tokens: ThinkingTokens | None = Field(
        None, description="Budget of extended thinking per model call; absent: no thinking."
    )
    output_schema: Opaque | None = Field(
        None, description="JSON Schema of the structured result, validated, with bounded repair."
    )
    capabilities: Annotated[tuple[Capability, ...], Field(max_length=32)] = Field(
        (),
        description="What a task's requires.capabilities may ask for.",
        json_schema_extra=unique(),
    )
    context: Context | None = Field(
        None, description="How long conversations are kept short enough."
    )
