"""``AgentRun.status``: a projection of the record, small whatever the length of the run.

Lists hold at most ten items (hazard H56: 300 tasks made 27 KB). Nothing here is authoritative.
Unknown fields and reasons are accepted on reading: the release that wrote them may be newer than
the one that reads them, and a run must not become invalid by a rollback.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, Strict

from agentrun.api.base import ApiModel, keyed, unique
from agentrun.api.bounds import Count, Decimal, Flag, OptionalAgentName, SpanId, Time, TraceId, Word
from agentrun.api.checkpoint import Position
from agentrun.api.conditions import Condition, Phase

LIST_MAX = 10
"""Items of each list in status."""

RESULT_MAX = 1024
MESSAGE_MAX = 512

NodeName = Annotated[str, Field(max_length=253)]
PodName = Annotated[str, Field(max_length=63)]
ExitCode = Annotated[int, Strict(), Field(ge=0, le=255)]


class StatusModel(ApiModel):
    """Base of what only the operator writes; unknown fields are dropped."""

    model_config = ConfigDict(extra="ignore")


class Fault(StrEnum):
    """Whose fault the end of an attempt was; absent: nobody's."""

    APP = "App"
    INFRA = "Infra"


class TaskPhase(StrEnum):
    """Where a task is."""

    PENDING = "Pending"
    AWAITING_APPROVAL = "AwaitingApproval"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"


class ContinuedFrom(StatusModel):
    """The attempt, and its trace, that this one goes on from."""

    attempt: Count = Field(description="Number of the earlier attempt.")
    trace_id: TraceId = Field("", description="Its trace.")
    span_id: SpanId = Field("", description="Its root span.")
    seq: Count = Field(0, description="Last commit of the earlier attempt.")


class AttemptStatus(StatusModel):
    """One attempt: one pod working on the run."""

    attempt: Count = Field(description="Number of the attempt.")
    fence: Count = Field(description="Its fence.")
    pod: PodName = Field("", description="Name of its pod.")
    node: NodeName = Field("", description="Node it ran on.")
    started_at: Time | None = Field(None, description="When it claimed the run.")
    ended_at: Time | None = Field(None, description="When it ended.")
    cause: Word = Field("", description="Why it ended.")
    fault: Fault | None = Field(None, description="Whom its end is charged to; absent: nobody.")
    exit_code: ExitCode | None = Field(None, description="Exit code of the runner.")
    last_seq: Count = Field(0, description="Its last commit.")
    trace_id: TraceId = Field("", description="Its trace.")
    span_id: SpanId = Field("", description="Its root span.")
    continued_from: ContinuedFrom | None = Field(
        None, description="The attempt that it goes on from."
    )


class CheckpointStatus(StatusModel):
    """How far the record reaches."""

    seq: Count = Field(0, description="Last commit.")
    snapshot_seq: Count = Field(0, description="Commit of the last snapshot; 0 before the first.")
    position: Position | None = Field(None, description="Boundary of the last bookmark.")
    saved_at: Time | None = Field(None, description="When the last commit was written.")


class TaskSummary(StatusModel):
    """Tasks by phase."""

    total: Count = Field(0, description="All tasks.")
    running: Count = Field(0, description="Being worked on.")
    succeeded: Count = Field(0, description="Succeeded.")
    failed: Count = Field(0, description="Failed.")
    skipped: Count = Field(0, description="Skipped because a dependency failed.")


class TaskStatus(StatusModel):
    """One task, briefly."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Name of the task."
    )
    agent: OptionalAgentName = Field("", description="Agent that does it.")
    phase: TaskPhase = Field(TaskPhase.PENDING, description="Where it is.")
    turns: Count = Field(0, description="Model calls so far.")
    tries: Count = Field(0, description="Tries so far.")


class Usage(StatusModel):
    """Totals over all attempts."""

    turns: Count = Field(0, description="Model calls.")
    tool_calls: Count = Field(0, description="Committed tool calls.")
    input_tokens: Count = Field(0, description="Input tokens, cache aside.")
    output_tokens: Count = Field(0, description="Output tokens.")
    cache_read_tokens: Count = Field(0, description="Tokens read from the prompt cache.")
    cache_write_tokens: Count = Field(0, description="Tokens written to the prompt cache.")
    total_tokens: Count = Field(0, description="All tokens.")
    cost_usd: Decimal | None = Field(
        None, alias="costUSD", description="US dollars, as a decimal; absent: no price is known."
    )


class AgentRunStatus(StatusModel):
    """What is known about the run, for people and tools."""

    observed_generation: Count = Field(0, description="Generation that this was concluded from.")
    phase: Phase = Field(Phase.PENDING, description="Where the run is, derived, for the eye.")
    reason: Word = Field("", description="Why, one CamelCase word from a closed set.")
    message: Annotated[str, Field(max_length=MESSAGE_MAX)] = Field(
        "", description="Why, for people."
    )
    run_id: Annotated[str, Field(max_length=128)] = Field("", description="Logical identity.")
    attempt: Count = Field(0, description="Number of the current attempt; 0 before the first.")
    fence: Count = Field(0, description="Current fence.")
    pod_name: PodName = Field("", description="Pod of the current attempt.")
    node_name: NodeName = Field("", description="Node of that pod.")
    attempts: Annotated[tuple[AttemptStatus, ...], Field(max_length=LIST_MAX)] = Field(
        (), description="The last ten attempts.", json_schema_extra=keyed("attempt")
    )
    checkpoint: CheckpointStatus | None = Field(None, description="How far the record reaches.")
    resumed_from_checkpoint: Flag = Field(
        False, description="Whether this attempt goes on from earlier work."
    )
    resume_position: Position | None = Field(None, description="Boundary that it went on from.")
    task_summary: TaskSummary | None = Field(None, description="Tasks by phase.")
    tasks: Annotated[tuple[TaskStatus, ...], Field(max_length=LIST_MAX)] = Field(
        (),
        description="At most ten tasks: failed, then active, then the rest.",
        json_schema_extra=keyed("name"),
    )
    usage: Usage | None = Field(None, description="Totals over all attempts.")
    pending_approval_count: Count = Field(0, description="Approvals being waited for.")
    pending_approvals: Annotated[
        tuple[Annotated[str, Field(max_length=63)], ...], Field(max_length=LIST_MAX)
    ] = Field((), description="Names of at most ten of them.", json_schema_extra=unique())
    result: Annotated[str, Field(max_length=RESULT_MAX)] = Field(
        "", description="Preview of the result."
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        (), description="Standard conditions.", json_schema_extra=keyed("type")
    )
    start_time: Time | None = Field(None, description="When the first attempt claimed the run.")
    completion_time: Time | None = Field(None, description="When the run became terminal.")
