"""What a person reviews, and the hash that binds the decision to exactly that."""

from __future__ import annotations

from agentrun.run.display import shown
from agentrun.run.exact import canonical_json, exact_json, sha256_hex
from agentrun.run.identity import approval_request_id, task_of_path
from agentrun.run.records import Json
from agentrun.run.state import Call
from agentrun.run.values import Question


def content_hash(scope: str, boundary: str, content: Json) -> str:
    """sha256 over the canonical JSON of scope, boundary and content."""
    return sha256_hex(canonical_json({"scope": scope, "boundary": boundary, "content": content}))


def tool_content(run_uid: str, agent: str, call: Call) -> Json:
    """Everything a decision about a call is bound to: tool, raw and validated arguments, run, call.

    The model's id of the call is in it for the reader, but the call's position identifies it.
    """
    return {
        "tool": call.tool,
        "arguments": call.arguments,
        "argumentsJSON": call.raw if call.raw is not None else exact_json(call.arguments).decode(),
        "agent": agent,
        "task": task_of_path(call.id.path),
        "callId": call.model_id,
        "call": str(call.id),
        "runUid": run_uid,
    }


def question_about(run_uid: str, agent: str, call: Call, ordinal: int, reason: str) -> Question:
    """The approval request for a tool call."""
    boundary = str(call.id)
    content = tool_content(run_uid, agent, call)
    return Question(
        id=approval_request_id(run_uid, "Tool", boundary, ordinal),
        scope="Tool",
        boundary=boundary,
        ordinal=ordinal,
        content=canonical_json(content),
        content_hash=content_hash("Tool", boundary, content),
        reason=shown(reason),
    )
