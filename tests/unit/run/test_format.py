"""What is written today is read for years: names, and defaults that are left out, are for ever.

A change here needs a new ``SCHEMA_VERSION``, and a reader for the old one.
"""

from __future__ import annotations

from typing import get_args

from pydantic_core import PydanticUndefined

from agentrun.run import codec
from agentrun.run.records import (
    OPERATOR_OWNED,
    SCHEMA_VERSION,
    AnyRecord,
    FileChange,
    Record,
    ToolOffer,
    ToolResult,
    TraceLink,
    Usage,
)

KINDS: tuple[type[Record], ...] = get_args(get_args(AnyRecord)[0])

FORMAT = {
    "run/start": "runUid mode specHash",
    "attempt/start": "attempt fence traceId spanId continuedFrom=None",
    "attempt/end": "attempt cause fault exitCode=None",
    "run/end": "outcome reason='' message=''",
    "run/suspend": "reason message='' notBeforeMs=0",
    "task/status": "task agent='' try status reason='' message='' result=None",
    "toolset/offered": "agent tools",
    "user/message": "conversation origin content=None",
    "llm/request": "conversation turn model requestHash systemHash toolsHash notices=0",
    "assistant/message": "conversation turn content model='' messageId='' stopReason='' usage cost=0",
    "tool/call": "conversation turn index id name tool arguments raw=None",
    "tool/start": "call ordinal timeoutMs",
    "tool/result": "call content isError=False durationMs=0 origin='server'",
    "tool/unknown": "call ordinal why",
    "turn/end": "conversation turn outcome",
    "workspace/changed": "server changes",
    "environment/reset": "server why",
    "content/sanitized": "where count",
    "approval/request": "id scope boundary ordinal contentHash reason=''",
    "approval/decision": "id decision decidedBy reason=''",
    "bookmark/saved": "position cycleIndex schemaVersion='1.0' createdAt='' messageCount agentId "
    "executionStatus",
    "Usage": "inputTokens=0 outputTokens=0 cacheReadTokens=0 cacheWriteTokens=0",
    "TraceLink": "attempt traceId spanId seq",
    "ToolOffer": "tool wire description='' inputSchema annotations=None",
    "FileChange": "path sha256 size=0 mode=420",
}


def spelled(kind: type[Record]) -> tuple[str, str]:
    """Its type, and its fields with their defaults."""
    fields = [
        str(field.alias)
        if field.default is PydanticUndefined
        else f"{field.alias}={field.default!r}"
        for name, field in kind.model_fields.items()
        if name != "type"
    ]
    named = kind.model_fields.get("type")
    return (named.default if named else kind.__name__), " ".join(fields)


def test_the_format_of_every_record() -> None:
    assert SCHEMA_VERSION == 1
    assert dict(map(spelled, (*KINDS, Usage, TraceLink, ToolOffer, FileChange))) == FORMAT


def test_a_body_is_versioned_and_leaves_defaults_out() -> None:
    assert codec.encode([ToolResult(call="main/1/1/0", content=None)]).body == (
        b'{"v":1,"r":[{"type":"tool/result","call":"main/1/1/0","content":null}]}'
    )


def test_h47_what_only_the_operator_may_write() -> None:
    assert {"run/start", "attempt/start", "attempt/end", "approval/decision"} == OPERATOR_OWNED
