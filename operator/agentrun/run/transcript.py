"""A conversation as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agentrun.run.exact import exact_json
from agentrun.run.log import Log
from agentrun.run.records import (
    ApprovalDecision,
    ApprovalRequest,
    AssistantMessage,
    AttemptEnd,
    AttemptStart,
    EnvironmentReset,
    Json,
    Record,
    RunEnd,
    RunSuspend,
    ToolCall,
    ToolResult,
    ToolUnknown,
    UserMessage,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a transcript. ``who`` is user, assistant, thinking, call, result or run."""

    seq: int
    attempt: int
    who: str
    text: str
    title: str = ""


def entries(log: Log) -> Iterator[Entry]:
    """The record in order, without bookkeeping."""
    for commit, records in log.decoded():
        for record in records:
            for who, title, text in _entry(record):
                yield Entry(commit.seq, commit.attempt, who, text, title)


def _entry(record: Record) -> Iterator[tuple[str, str, str]]:
    match record:
        case UserMessage(origin="input"):
            yield "user", "", plain(record.content)
        case AssistantMessage():
            yield from _reply(record.content)
        case ToolCall():
            arguments = record.raw if record.raw is not None else exact_json(record.arguments)
            text = arguments if isinstance(arguments, str) else arguments.decode()
            yield "call", record.tool or record.name, text
        case ToolResult():
            yield (
                "result",
                record.call + (" (error)" if record.is_error else ""),
                plain(record.content),
            )
        case _:
            note = _note(record)
            if note:
                yield "run", "", note


def _note(record: Record) -> str:
    match record:
        case AttemptStart(continued_from=None):
            return f"attempt {record.attempt} started"
        case AttemptStart():
            assert record.continued_from is not None
            origin = record.continued_from
            return f"attempt {record.attempt} continued from attempt {origin.attempt}, commit {origin.seq}"
        case AttemptEnd():
            return f"attempt {record.attempt} ended: {record.cause}"
        case ToolUnknown():
            return f"outcome of {record.call} unknown: {record.why}"
        case EnvironmentReset():
            return f"tool server {record.server} was reset: {record.why}"
        case ApprovalRequest():
            return f"asked about {record.boundary}: {record.reason}"
        case ApprovalDecision():
            return f"{record.decision} by {record.decided_by} {record.reason}".strip()
        case RunSuspend():
            return f"suspended: {record.reason} {record.message}".strip()
        case RunEnd():
            return f"{record.outcome} {record.reason} {record.message}".strip()
        case _:
            return ""


def _reply(content: Json) -> Iterator[tuple[str, str, str]]:
    for block in content if isinstance(content, list) else [content]:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "thinking":
            yield "thinking", "", str(block.get("thinking", ""))
        elif kind == "text":
            yield "assistant", "", str(block.get("text", ""))
        elif kind != "tool_use":
            yield "assistant", str(kind), ""


def plain(content: Json) -> str:
    """Text of content blocks; other kinds are named."""
    if isinstance(content, str):
        return content
    parts = [
        str(block.get("text", "")) if block.get("type") == "text" else f"[{block.get('type')}]"
        for block in (content if isinstance(content, list) else [])
        if isinstance(block, dict)
    ]
    return "\n".join(parts)
