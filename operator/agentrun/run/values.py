"""What goes into and comes out of the pure functions of this package, besides records and state."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrun.run.identity import CallId
from agentrun.run.records import FileChange, Json, Record, Usage


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets in force; None = none. ``cost`` in picodollars."""

    turns: int | None = None
    tokens: int | None = None
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """What the operator wants of this attempt: ``run``, ``suspend`` or ``cancel``, and why.

    ``reason`` is User, Deadline or Budget. ``limits`` may have been raised since the spec was
    captured.
    """

    requested: str = "run"
    reason: str = ""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Requested:
    """One tool_use block of a reply: its parsed input and, if different, the text streamed.

    ``arguments`` are no object where the model gave none that could be used: such a call is refused,
    and the block has an empty input, the only other thing that the provider takes back.
    """

    id: str
    name: str
    arguments: Json
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete model reply (message_stop was seen). ``content`` has every block as streamed;
    ``requested`` its tool_use blocks, in order. ``sanitized`` counts replaced lone surrogates."""

    content: Json
    requested: tuple[Requested, ...]
    stop_reason: str
    model: str
    message_id: str
    usage: Usage
    sanitized: int = 0


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A server's answer (an error result is one). ``changes`` are files a workspace call changed,
    ``blobs`` their contents by sha256. ``sanitized`` counts replaced lone surrogates."""

    content: Json
    is_error: bool
    duration_ms: int
    changes: tuple[FileChange, ...] = ()
    blobs: dict[str, bytes] = field(default_factory=dict)
    sanitized: int = 0


@dataclass(frozen=True, slots=True)
class ToolSilence:
    """The call was sent (or may have been) and no answer of the server came back."""

    why: str


ToolOutcome = ToolAnswer | ToolSilence


@dataclass(frozen=True, slots=True)
class OutgoingCall:
    """A call as it is sent to the tool server."""

    call: CallId
    key: str
    model_id: str
    server: str
    tool: str
    arguments: Json
    task: str
    agent: str
    attempt: int
    run_uid: str
    run_id: str
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """The exact bytes to send, the hashes that go into the record, and how many of the pending
    notices are in it."""

    model: str
    body: bytes
    request_hash: str
    system_hash: str
    tools_hash: str
    notices: int = 0


@dataclass(frozen=True, slots=True)
class LastWord:
    """The state that an attempt's last commit sets: Suspended or an outcome.

    ``wait_ms``: of a suspension that resumes by itself, not before this long from now.
    """

    state: str
    reason: str
    message: str
    preview: str = ""
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """An approval row to be written with the commit that requests it."""

    id: str
    scope: str
    boundary: str
    ordinal: int
    content: bytes
    content_hash: str
    reason: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """One commit to make: its records, whether work may go on before it has landed (``strict``:
    no), and the extras that are written in the same statement."""

    kind: str
    ref: str | None
    records: tuple[Record, ...]
    strict: bool
    last: LastWord | None = None
    questions: tuple[Question, ...] = ()
    blobs: dict[str, bytes] = field(default_factory=dict)
