"""The state of a run: what its records fold into.

Only :mod:`agentrun.run.fold` changes a state; everybody else reads. It is a value in the sense that
it is a function of the records alone: no clock, no ids made here, no order of dictionaries that
depends on anything but the records. (It is mutable inside, because copying a conversation at every
record would make a restore of n commits cost n².)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from agentrun.run.identity import CallId
from agentrun.run.records import (
    BookmarkSaved,
    Json,
    RunEnd,
    RunSuspend,
    Text,
    ToolOffer,
    TraceLink,
)


class ConversationPhase(StrEnum):
    """What a conversation is waiting for."""

    AWAITING_MODEL = "awaiting_model"
    EXECUTING_TOOLS = "executing_tools"
    COMPLETED = "completed"


class CallPhase(StrEnum):
    """How far a call is. ``requested -> [awaiting_approval -> approved] -> started -> committed``."""

    REQUESTED = "requested"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    DENIED = "denied"
    STARTED = "started"
    UNKNOWN = "unknown"
    COMMITTED = "committed"


class TaskPhase(StrEnum):
    """A task's life."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(slots=True)
class Totals:
    """Sums over all attempts: of the run, or of one conversation. ``cost`` in picodollars."""

    turns: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: int = 0

    @property
    def tokens(self) -> int:
        """What ``limits.tokens`` bounds: every token that was paid for."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )


@dataclass(slots=True)
class Call:
    """One tool call of the open round."""

    id: CallId
    model_id: Text
    name: Text
    tool: Text
    arguments: Json
    raw: Text | None = None
    phase: CallPhase = CallPhase.REQUESTED
    starts: int = 0
    """How often it was started or ended unknown; the ordinal of the next start is ``starts + 1``.
    Above 0 the call may have had its effect."""
    approval: Text | None = None
    """The id of its latest approval request."""
    questions: int = 0
    """How many approval requests were made about it; the ordinal of the next one is + 1."""
    denied_because: Text = ""
    result: Json = None
    is_error: bool = False


@dataclass(slots=True)
class Conversation:
    """One agent's exchange with the model. ``messages`` is what the model sees, exactly."""

    path: Text
    agent: Text
    try_: int = 1
    messages: list[Json] = field(default_factory=list)
    phase: ConversationPhase = ConversationPhase.AWAITING_MODEL
    turn: int = 0
    """Completed model replies; the next reply is turn + 1."""
    calls: list[Call] = field(default_factory=list)
    """Calls of the open round, in request order; empty unless executing tools."""
    totals: Totals = field(default_factory=Totals)
    stop_reason: Text = ""
    """Why the last reply ended, as the provider says."""
    notices: list[Text] = field(default_factory=list)
    """What the model must still be told (a reset environment): part of its next message, whether
    that is built for a request or closes a round."""


@dataclass(slots=True)
class Task:
    """One task; a ``prompt`` is the single task ``main``."""

    id: Text
    agent: Text
    phase: TaskPhase = TaskPhase.PENDING
    try_: int = 0
    result: Json = None
    reason: Text = ""
    message: Text = ""


@dataclass(slots=True)
class Approval:
    """A question asked, and its answer once consumed."""

    id: Text
    boundary: Text
    ordinal: int
    content_hash: Text
    decision: Text | None = None
    decided_by: Text = ""


@dataclass(slots=True)
class State:
    """Everything known about a run. ``suspended`` is set by run/suspend, cleared by attempt/start."""

    run_uid: Text = ""
    mode: Text = ""
    spec_hash: Text = ""
    attempt: int = 0
    fence: int = 0
    continued_from: TraceLink | None = None
    tasks: dict[str, Task] = field(default_factory=dict)
    conversations: dict[str, Conversation] = field(default_factory=dict)
    toolsets: dict[str, tuple[ToolOffer, ...]] = field(default_factory=dict)
    """By agent: the tools in every request of that agent."""
    files: dict[str, dict[Text, tuple[Text, int, int]]] = field(default_factory=dict)
    """By workspace server: path -> (sha256, size, mode)."""
    approvals: dict[str, Approval] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    bookmark: BookmarkSaved | None = None
    suspended: RunSuspend | None = None
    outcome: RunEnd | None = None
    model_ever_answered: bool = False
