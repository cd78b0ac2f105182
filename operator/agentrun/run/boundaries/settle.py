"""Commits of steps that need no I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrun.api import AgentRunSpec, Position
from agentrun.run.approvals import question_about
from agentrun.run.bookmarks import bookmark
from agentrun.run.boundaries.tool import call_of
from agentrun.run.display import shown
from agentrun.run.identity import result_ref
from agentrun.run.messages import blocks_of
from agentrun.run.policy import policy_for
from agentrun.run.records import (
    ApprovalRequest,
    Json,
    Record,
    RunEnd,
    RunSuspend,
    TaskStatus,
    ToolResult,
    TurnEnd,
    UserMessage,
)
from agentrun.run.state import Conversation, State, TaskPhase
from agentrun.run.steps import (
    CloseRound,
    CompleteTask,
    FailTask,
    Finish,
    RefuseCall,
    RequestApproval,
    StartTask,
    Step,
    Suspend,
)
from agentrun.run.values import Boundary, LastWord

PREVIEW = 1023  # and a character that says that there is more
"""Characters of the result that the status shows."""


def settle(step: Step, state: State, spec: AgentRunSpec) -> Boundary:
    """The commit that a step without I/O is."""
    return _SETTLE[type(step)](step, state, spec)


def _start_task(step: StartTask, state: State, spec: AgentRunSpec) -> Boundary:
    agent = spec.entry_agent
    assert agent is not None
    records = (
        TaskStatus(task=step.task, agent=agent.name, try_=1, status="in_progress"),
        UserMessage(
            conversation=step.task,
            origin="input",
            content=[{"type": "text", "text": spec.prompt or ""}],
        ),
    )
    return Boundary("task/status", None, records, strict=False)


def _refuse_call(step: RefuseCall, state: State, spec: AgentRunSpec) -> Boundary:
    result = ToolResult(
        call=str(step.call),
        content=[{"type": "text", "text": step.message}],
        is_error=True,
        origin=step.origin,
    )
    return Boundary("tool/result", result_ref(step.call), (result,), strict=False)


def _request_approval(step: RequestApproval, state: State, spec: AgentRunSpec) -> Boundary:
    call = call_of(state, step.call)
    agent = state.conversations[step.call.path].agent
    question = question_about(
        state.run_uid, agent, call, step.ordinal, policy_for(spec, call.tool).reason
    )
    record = ApprovalRequest(
        id=question.id,
        scope="Tool",
        boundary=question.boundary,
        ordinal=step.ordinal,
        content_hash=question.content_hash,
        reason=question.reason,
    )
    return Boundary("approval/request", None, (record,), strict=True, questions=(question,))


def _close_round(step: CloseRound, state: State, spec: AgentRunSpec) -> Boundary:
    conversation = state.conversations[step.conversation]
    records: list[Record] = [
        UserMessage(conversation=conversation.path, origin="tool_results"),
        TurnEnd(conversation=conversation.path, turn=conversation.turn, outcome="tool_use"),
    ]
    if spec.checkpoint.position is not Position.AFTER_MODEL:
        records.append(bookmark(conversation, "after_tools", len(conversation.messages) + 1))
    return Boundary("user/message", None, tuple(records), strict=False)


def _complete_task(step: CompleteTask, state: State, spec: AgentRunSpec) -> Boundary:
    conversation = state.conversations[step.task]
    task = state.tasks[step.task]
    records: list[Record] = [
        TurnEnd(conversation=conversation.path, turn=conversation.turn, outcome="completed"),
        TaskStatus(
            task=task.id, try_=task.try_, status="completed", result=final_text(conversation)
        ),
    ]
    if state.bookmark is not None:
        records.append(
            bookmark(conversation, "after_model", len(conversation.messages), completed=True)
        )
    return Boundary("task/status", None, tuple(records), strict=False)


def _fail_task(step: FailTask, state: State, spec: AgentRunSpec) -> Boundary:
    task = state.tasks[step.task]
    records: list[Record] = []
    if task.phase is TaskPhase.PENDING:
        agent = spec.entry_agent.name if spec.entry_agent else "none"
        records.append(TaskStatus(task=task.id, agent=agent, try_=1, status="in_progress"))
    records.append(
        TaskStatus(
            task=task.id,
            try_=max(task.try_, 1),
            status="failed",
            reason=step.reason,
            message=step.message,
        )
    )
    return Boundary("task/status", None, tuple(records), strict=True)


def _suspend(step: Suspend, state: State, spec: AgentRunSpec) -> Boundary:
    record = RunSuspend(reason=step.reason, message=step.message, not_before_ms=step.not_before_ms)
    last = LastWord("Suspended", step.reason, shown(step.message), wait_ms=step.not_before_ms)
    return Boundary("run/suspend", None, (record,), strict=True, last=last)


def _finish(step: Finish, state: State, spec: AgentRunSpec) -> Boundary:
    record = RunEnd(outcome=step.outcome, reason=step.reason, message=step.message)
    last = LastWord(step.outcome, step.reason, shown(step.message), preview=preview(state))
    return Boundary("run/end", None, (record,), strict=True, last=last)


def final_text(conversation: Conversation) -> Json:
    """Text of the last reply, its text blocks joined, exactly."""
    content = conversation.messages[-1]["content"]
    return "".join(
        str(block.get("text") or "")
        for block in blocks_of(content)
        if isinstance(block, dict) and block.get("type") == "text"
    )


def preview(state: State) -> str:
    """The beginning of the run's result."""
    results = [task.result for task in state.tasks.values() if isinstance(task.result, str)]
    return shown(results[-1], PREVIEW) if results else ""


_SETTLE: dict[type[Step], Callable[[Any, State, AgentRunSpec], Boundary]] = {
    StartTask: _start_task,
    RefuseCall: _refuse_call,
    RequestApproval: _request_approval,
    CloseRound: _close_round,
    CompleteTask: _complete_task,
    FailTask: _fail_task,
    Suspend: _suspend,
    Finish: _finish,
}
