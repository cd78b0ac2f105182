"""The facts a run is made of.

A commit holds one or more records; folding all records of a run, in order, gives its whole state.
A record is a frozen value with a ``type`` (the names of common run journals, plus ours) and a version.
Unknown types and versions are refused, never skipped (``CheckpointCorrupt`` for what cannot be,
``CheckpointNewer`` for what a newer release may have written).

Conversation content (message blocks, tool arguments, tool results, JSON Schemas) is opaque JSON
and kept exactly. Everything else is typed. Only the operator may write the types in
``OPERATOR_OWNED``; the SQL functions and ``fold`` both enforce it (H47).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf
from pydantic.alias_generators import to_camel

Json = Any
"""An opaque JSON value, kept exactly as it came."""

Text = InstanceOf[str]
"""Any string as it came. Pydantic's own ``str`` refuses lone surrogates in some releases and wherever
it is constrained, and models, tools and file names do produce them: a record that could not hold one
would stop the run that met it."""

Count = Annotated[int, Field(ge=0)]
"""Never negative: a budget is not given back."""

SCHEMA_VERSION = 1
"""Version of the record shapes and of the state in snapshots. Any change raises it, a field that is
only added included: an older release refuses what it does not know, and must wait instead (H29)."""


class Record(BaseModel):
    """Base of all records. Field names are snake_case here and camelCase in the record."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
    )
    progress: ClassVar[bool] = True
    """Whether the run is further with it (:func:`progress`)."""


class Usage(Record):
    """Tokens of one model call. ``input_tokens`` excludes cached ones, as the provider counts."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cache_write_tokens: Count = 0


class TraceLink(Record):
    """Where an attempt went on from: the previous attempt's trace, root span and last commit."""

    attempt: int
    trace_id: Text
    span_id: Text
    seq: int


class RunStart(Record):
    """First record of every run; ``spec_hash`` binds the record to the captured spec."""

    type: Literal["run/start"] = "run/start"
    run_uid: Text
    mode: Literal["prompt"]
    spec_hash: Text
    progress = False


class AttemptStart(Record):
    """A new owner of the run. It clears the suspension that the run may have been in."""

    type: Literal["attempt/start"] = "attempt/start"
    attempt: int
    fence: int
    trace_id: Text
    span_id: Text
    continued_from: TraceLink | None = None
    progress = False


class AttemptEnd(Record):
    """How an attempt ended, as the operator judged it."""

    type: Literal["attempt/end"] = "attempt/end"
    attempt: int
    cause: Text
    fault: Literal["None", "Infra", "App"]
    exit_code: int | None = None
    progress = False


class RunEnd(Record):
    """The outcome. Nothing may follow it."""

    type: Literal["run/end"] = "run/end"
    outcome: Literal["Succeeded", "Failed", "Cancelled", "Rejected"]
    reason: Text = ""
    message: Text = ""


class RunSuspend(Record):
    """Last record of an attempt that gave its pod back on purpose.

    ``reason`` is the status reason (ApprovalPending, SuspendedByUser, BudgetExceeded,
    ModelUnavailable). ``not_before_ms`` is the wait asked for, 0 when something else must happen.
    """

    type: Literal["run/suspend"] = "run/suspend"
    reason: Text
    message: Text = ""
    not_before_ms: int = 0
    progress = False


class TaskStatus(Record):
    """A task changed phase. ``agent`` is given when it starts, ``result`` (its output text, kept
    exactly as the model wrote it) when it is completed."""

    type: Literal["task/status"] = "task/status"
    task: Text
    agent: Text = ""
    try_: int = Field(alias="try")
    status: Literal["in_progress", "completed", "failed"]
    reason: Text = ""
    message: Text = ""
    result: Json = None


class ToolOffer(Record):
    """One tool as its server described it and as the model is told about it."""

    tool: Text
    """``server.tool``, on the server's own names."""
    wire: Text
    """The name on the wire: ``server__tool``, sanitised, shortened with a hash if need be."""
    description: Text = ""
    input_schema: Json
    annotations: Json = None


class ToolsetOffered(Record):
    """What the tool servers offer, filtered by one agent's globs. Part of every later request.

    A server that offers something else after a restart is a new record, never a silent difference.
    It is no progress: a server that describes itself anew at each start would hide a crash loop.
    """

    type: Literal["toolset/offered"] = "toolset/offered"
    agent: Text
    tools: tuple[ToolOffer, ...]
    progress = False


class UserMessage(Record):
    """A user turn. ``tool_results`` refers to the results of the round instead of repeating them."""

    type: Literal["user/message"] = "user/message"
    conversation: Text
    origin: Literal["input", "tool_results"]
    content: Json = None
    """Content blocks, for ``input`` only."""


class LlmRequest(Record):
    """Which request produced the reply that follows: hashes only (H52).

    ``notices`` says how many of the conversation's pending notices the request carried: one that
    came up while it was under way has not been read yet.
    """

    type: Literal["llm/request"] = "llm/request"
    conversation: Text
    turn: int
    model: Text
    request_hash: Text
    system_hash: Text
    tools_hash: Text
    notices: Count = 0
    progress = False


class AssistantMessage(Record):
    """The model's reply, blocks exactly as streamed (thinking signatures included)."""

    type: Literal["assistant/message"] = "assistant/message"
    conversation: Text
    turn: int
    content: Json
    model: Text = ""
    message_id: Text = ""
    stop_reason: Text = ""
    usage: Usage
    cost: int = 0
    """Picodollars (1e-12 USD), by the pricing in force when it was made."""


class ToolCall(Record):
    """A call that the reply asked for, in the same commit as the reply, before it may run."""

    type: Literal["tool/call"] = "tool/call"
    conversation: Text
    turn: int
    index: int
    id: Text
    """The model's own id, for the wire only."""
    name: Text
    """The wire name the model used."""
    tool: Text
    """``server.tool``; empty when no offered tool has that wire name."""
    arguments: Json
    """Parsed, last duplicate key wins: for validation, hash and call. No object: never sent."""
    raw: Text | None = None
    """The streamed text where it is not the compact form of ``arguments``."""


class ToolStart(Record):
    """Before a call whose unknown outcome matters: it is about to be sent."""

    type: Literal["tool/start"] = "tool/start"
    call: Text
    ordinal: int
    timeout_ms: int
    progress = False


ResultOrigin = Literal["server", "denied", "stale", "unavailable", "invalid", "unknown", "unusable"]
"""Who speaks in a result: the tool's server, or the run itself (denied, reviewed but not current any
more, no such tool, arguments refused, outcome unknown for good, an answer that cannot be kept)."""


class ToolResult(Record):
    """What a call came to: exactly one per call. ``content`` is the result block's content."""

    type: Literal["tool/result"] = "tool/result"
    call: Text
    content: Json
    is_error: bool = False
    duration_ms: int = 0
    origin: ResultOrigin = "server"


class ToolUnknown(Record):
    """A call was sent and no answer came back. It will be settled by the tool's policy."""

    type: Literal["tool/unknown"] = "tool/unknown"
    call: Text
    ordinal: int
    why: Text


class TurnEnd(Record):
    """A turn is closed; what follows is the next turn or the end of the task."""

    type: Literal["turn/end"] = "turn/end"
    conversation: Text
    turn: int
    outcome: Literal["tool_use", "completed", "failed"]


class FileChange(Record):
    """One regular file of a workspace after a call; ``sha256`` None means deleted."""

    path: Text
    sha256: Text | None
    size: int = 0
    mode: int = 0o644


class WorkspaceChanged(Record):
    """Files that a call changed, in the same commit as its result; contents are blobs."""

    type: Literal["workspace/changed"] = "workspace/changed"
    server: Text
    changes: tuple[FileChange, ...]


class EnvironmentReset(Record):
    """A tool server lost its state; the model is told with the next message it gets.

    It is no progress: each attempt of a crash loop may begin with one (H30).
    """

    type: Literal["environment/reset"] = "environment/reset"
    server: Text
    why: Text
    progress = False


class ContentSanitized(Record):
    """A lone surrogate was replaced before it goes to the model or a tool."""

    type: Literal["content/sanitized"] = "content/sanitized"
    where: Text
    count: int
    progress = False


class ApprovalRequest(Record):
    """A question to a person. ``content`` is what the decision is bound to by ``content_hash``."""

    type: Literal["approval/request"] = "approval/request"
    id: Text
    scope: Literal["Tool"]
    boundary: Text
    ordinal: int
    content_hash: Text
    reason: Text = ""


class ApprovalDecision(Record):
    """A person's answer, consumed exactly once by the operator."""

    type: Literal["approval/decision"] = "approval/decision"
    id: Text
    decision: Literal["Approve", "Deny", "Stale"]
    decided_by: Text
    reason: Text = ""


class BookmarkSaved(Record):
    """The seven-field bookmark of the last boundary."""

    type: Literal["bookmark/saved"] = "bookmark/saved"
    position: Literal["after_model", "after_tools"]
    cycle_index: int
    schema_version: Literal["1.0"] = "1.0"
    created_at: Text = ""
    """Left empty in the record: the commit's own time is the time (no clock in the fold)."""
    message_count: int
    agent_id: Text
    execution_status: Literal["active", "completed"]
    progress = False


AnyRecord = Annotated[
    RunStart
    | AttemptStart
    | AttemptEnd
    | RunEnd
    | RunSuspend
    | TaskStatus
    | ToolsetOffered
    | UserMessage
    | LlmRequest
    | AssistantMessage
    | ToolCall
    | ToolStart
    | ToolResult
    | ToolUnknown
    | TurnEnd
    | WorkspaceChanged
    | EnvironmentReset
    | ContentSanitized
    | ApprovalRequest
    | ApprovalDecision
    | BookmarkSaved,
    Field(discriminator="type"),
]

OPERATOR_OWNED = frozenset(
    {"run/start", "attempt/start", "attempt/end", "approval/decision"},
)
"""Types that only an operator commit may hold. ``run/end`` may come from either side."""


def progress(records: Iterable[Record]) -> bool:
    """Whether a commit with these records is progress: three App faults without
    any end the run, so what every attempt of a crash loop writes must not count (H30)."""
    return any(record.progress for record in records)
