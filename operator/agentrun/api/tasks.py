"""What a run can be besides a prompt: a graph of tasks, a goal, a plan, a swarm, a fork."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, Strict

from agentrun.api.base import ApiModel, cel, inline, rules, short_inline, unique
from agentrun.api.bounds import (
    INLINE_TEXT_MAX,
    AgentName,
    Decimal,
    DnsLabel,
    InlineText,
    Line,
    Note,
    OptionalAgentName,
    TaskMetadataKey,
    Text,
    ToolName,
)
from agentrun.api.meta import ConfigMapKeyRef, LocalRef, TextSource
from agentrun.api.model import ModelOverride, Provider

TaskRetries = Annotated[int, Strict(), Field(ge=0, le=100)]
DelaySeconds = Annotated[int, Strict(), Field(ge=0, le=86_400)]
Handoffs = Annotated[int, Strict(), Field(ge=1, le=1000)]
Sequence = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000_000)]


class DependencyPayload(StrEnum):
    """What of a finished dependency a task is shown."""

    OUTPUT = "Output"
    STRUCTURED = "Structured"
    BOTH = "Both"


class MemoryScope(StrEnum):
    """Which results of other tasks are in a task's memory."""

    DEPENDENCIES = "Dependencies"
    ALL = "All"


class Priority(StrEnum):
    """Which of several ready tasks starts first."""

    NORMAL = "Normal"
    LOW = "Low"
    HIGH = "High"
    CRITICAL = "Critical"


class TaskRequires(ApiModel):
    """What the agent of a task must have."""

    tools: Annotated[tuple[ToolName, ...], Field(max_length=32)] = Field(
        (), description="Tools it must be able to call.", json_schema_extra=unique()
    )
    capabilities: Annotated[
        tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=32)
    ] = Field((), description="Capabilities it must name.", json_schema_extra=unique())
    provider: Provider | None = Field(
        None, description="Provider its model must have; absent: any."
    )


class TaskSpec(ApiModel):
    """One node of the graph."""

    name: DnsLabel = Field(description="Name of the task, unique in the run.")
    title: Line = Field("", description="Short title.")
    agent: OptionalAgentName = Field("", description="Agent that does it; empty: the only one.")
    prompt: Annotated[Text, Field(min_length=1)] = Field(description="What is to be done.")
    depends_on: Annotated[tuple[DnsLabel, ...], Field(max_length=50)] = Field(
        (), description="Tasks that must have succeeded before.", json_schema_extra=unique()
    )
    dependency_payload: DependencyPayload = Field(
        DependencyPayload.OUTPUT, description="What of its dependencies' results it is shown."
    )
    retries: TaskRetries | None = Field(None, description="Further tries after a failure.")
    retry_delay_seconds: DelaySeconds | None = Field(
        None, description="Pause before the second try."
    )
    retry_backoff: Decimal | None = Field(
        None, description="Factor by which the pause grows, as a decimal."
    )
    requires: TaskRequires | None = Field(None, description="What its agent must have.")
    role: Line = Field("", description="Role, passed on to results and traces.")
    priority: Priority = Field(
        Priority.NORMAL, description="Which of several ready tasks starts first."
    )
    metadata: Annotated[dict[TaskMetadataKey, Note], Field(max_length=16)] = Field(
        default_factory=dict, description="Metadata, passed on to results and traces."
    )
    memory_scope: MemoryScope = Field(
        MemoryScope.DEPENDENCIES, description="Whose results its memory holds."
    )


_ONE_PLAN = cel(
    "has(self.configMapKeyRef) != has(self.agentRunRef)",
    "give exactly one of configMapKeyRef and agentRunRef",
)
_ONE_PROMPT = cel(
    "has(self.prompt) != has(self.promptFrom)", "give exactly one of prompt and promptFrom"
)


class PlanSource(ApiModel):
    """A reviewed plan that is to be replayed exactly."""

    model_config = ConfigDict(json_schema_extra=rules(_ONE_PLAN))

    config_map_key_ref: ConfigMapKeyRef | None = Field(
        None, description="A ConfigMap's key that holds the plan."
    )
    agent_run_ref: LocalRef | None = Field(
        None, description="A live AgentRun of this namespace whose plan it is."
    )


class Swarm(ApiModel):
    """One conversation whose turn moves between agents."""

    model_config = ConfigDict(json_schema_extra=rules(_ONE_PROMPT, short_inline("prompt")))

    prompt: InlineText | None = Field(
        None, description="What is to be done.", json_schema_extra=inline()
    )
    prompt_from: TextSource | None = Field(
        None, description="The prompt from a ConfigMap, recorded once."
    )
    entry: AgentName = Field(description="Agent that begins.")
    max_handoffs: Handoffs | None = Field(None, description="Hand-overs before the run ends.")


class ForkFrom(ApiModel):
    """A commit of another run of the namespace, from which this one goes on."""

    run_ref: LocalRef = Field(description="The run whose record is continued.")
    seq: Sequence = Field(description="Commit to go on from.")
    prompt: Annotated[str, Field(max_length=INLINE_TEXT_MAX)] = Field(
        "", description="New user text; empty: go on as it is."
    )


class Coordinator(ApiModel):
    """Who plans a goal and writes its result."""

    model: ModelOverride | None = Field(
        None, description="What its model differs in from spec.model, field by field."
    )
    instructions: Text = Field("", description="System prompt.")
    max_turns: Handoffs | None = Field(None, description="Model calls per conversation.")
