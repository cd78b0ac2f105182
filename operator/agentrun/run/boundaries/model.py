"""Boundary 1: after the model, and what a failed model call does."""

from __future__ import annotations

from agentrun.api import AgentRunSpec, Position, Reason
from agentrun.errors import ModelRefused, ModelUnavailable
from agentrun.run.bookmarks import bookmark
from agentrun.run.conversation import problem, tool_uses
from agentrun.run.display import shown
from agentrun.run.exact import exact_json, unfit
from agentrun.run.identity import task_of_path
from agentrun.run.messages import with_notices
from agentrun.run.records import (
    AssistantMessage,
    ContentSanitized,
    LlmRequest,
    Record,
    RunSuspend,
    TaskStatus,
    ToolCall,
)
from agentrun.run.state import State
from agentrun.run.totals import cost
from agentrun.run.values import Boundary, LastWord, ModelRequest, Reply, Requested

OUTAGE_WAIT_MS = 60_000
KEY_WAIT_MS = 300_000
WAIT_MAX_MS = 86_400_000
"""A provider may ask for longer; a day is a good time to look again."""


def after_model(
    state: State, spec: AgentRunSpec, path: str, request: ModelRequest, reply: Reply
) -> Boundary:
    """Reply, usage and every requested call in one commit, before any of its tools runs (H1)."""
    why = _unusable(reply)
    if why is not None:
        return _task_failed(state, path, f"the reply cannot be built on: {why}")
    conversation = state.conversations[path]
    turn = conversation.turn + 1
    records: list[Record] = [
        LlmRequest(
            conversation=path,
            turn=turn,
            model=request.model,
            request_hash=request.request_hash,
            system_hash=request.system_hash,
            tools_hash=request.tools_hash,
            notices=request.notices,
        ),
        AssistantMessage(
            conversation=path,
            turn=turn,
            content=reply.content,
            model=reply.model,
            message_id=reply.message_id,
            stop_reason=reply.stop_reason,
            usage=reply.usage,
            cost=cost(reply.usage, spec.pricing),
        ),
    ]
    names = {offer.wire: offer.tool for offer in state.toolsets.get(conversation.agent, ())}
    records.extend(
        _call(path, turn, index, asked, names.get(asked.name, ""))
        for index, asked in enumerate(reply.requested)
    )
    if reply.sanitized:
        records.append(ContentSanitized(where=f"{path}/{turn}", count=reply.sanitized))
    if reply.requested and spec.checkpoint.position is not Position.AFTER_TOOLS:
        said = (
            with_notices(conversation.messages, conversation.notices[: request.notices])
            if request.notices
            else conversation.messages
        )
        records.append(bookmark(conversation, "after_model", len(said) + 1))
    return Boundary("assistant/message", None, tuple(records), strict=bool(reply.requested))


def model_failed(state: State, path: str, error: ModelRefused | ModelUnavailable) -> Boundary:
    """The task fails on a refused request; an unreachable model suspends the run (H34).

    It resumes by itself, not before the provider wants to be asked again.

    A key that never worked fails it: there is nothing to keep. One that worked before is rotated
    or out of credit, and days of work are not thrown away for that.
    """
    bad_key = isinstance(error, ModelUnavailable) and (error.auth or error.credit)
    if isinstance(error, ModelRefused) or (bad_key and not state.model_ever_answered):
        return _task_failed(state, path, error.message)
    asked = min(1000 * (error.retry_after or 0), WAIT_MAX_MS)
    wait = max(KEY_WAIT_MS if bad_key else OUTAGE_WAIT_MS, int(asked))
    suspend = RunSuspend(
        reason=Reason.MODEL_UNAVAILABLE, message=error.message[:500], not_before_ms=wait
    )
    last = LastWord("Suspended", suspend.reason, shown(suspend.message), wait_ms=wait)
    return Boundary("run/suspend", None, (suspend,), strict=True, last=last)


def _task_failed(state: State, path: str, message: str) -> Boundary:
    task = state.tasks[task_of_path(path)]
    failed = TaskStatus(
        task=task.id,
        try_=task.try_,
        status="failed",
        reason=Reason.MODEL_ERROR,
        message=message[:500],
    )
    return Boundary("task/status", None, (failed,), strict=True)


def _unusable(reply: Reply) -> str | None:
    """Why a conversation that holds this reply could not be kept or sent (H5), or None."""
    blocks = reply.content
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        return "its content is not a list of blocks"
    for value in (blocks, *(asked.arguments for asked in reply.requested)):
        if (why := unfit(value)) is not None:
            return why
    alone = ({"role": "user", "content": []}, {"role": "assistant", "content": blocks})
    if (why := problem(alone)) is not None:
        return f"it makes the conversation invalid: {why}"
    asked = [(block.get("id"), block.get("name")) for block in tool_uses(blocks)]
    if asked != [(call.id, call.name) for call in reply.requested]:
        return "its calls are not those in its content"
    return None


def _call(path: str, turn: int, index: int, asked: Requested, tool: str) -> ToolCall:
    raw = asked.raw
    if raw is not None and raw.encode("utf-8", "surrogatepass") == exact_json(asked.arguments):
        raw = None
    return ToolCall(
        conversation=path,
        turn=turn,
        index=index,
        id=asked.id,
        name=asked.name,
        tool=tool,
        arguments=asked.arguments,
        raw=raw,
    )
