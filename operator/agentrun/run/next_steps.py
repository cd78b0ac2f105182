"""``next_steps``: everything that may run now, given the state. Pure and deterministic.

A step that is already in flight appears again; the runner starts each once. ``Suspend`` and
``Finish`` appear alone, when nothing else can run or when the operator wants the attempt to stop.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentrun.api import AgentRunSpec, AgentSpec, ApprovalMode, OnExceeded, OnUnknown, Reason
from agentrun.run.budgets import exceeded
from agentrun.run.identity import MAIN_TASK
from agentrun.run.policy import policy_for
from agentrun.run.refusals import refusal
from agentrun.run.state import (
    Call,
    CallPhase,
    Conversation,
    ConversationPhase,
    State,
    Task,
    TaskPhase,
)
from agentrun.run.steps import (
    CallModel,
    CloseRound,
    CompleteTask,
    FailTask,
    Finish,
    OfferTools,
    RequestApproval,
    RunTool,
    StartTask,
    Step,
    Suspend,
)
from agentrun.run.values import Intent

UNFINISHED = {
    "max_tokens": "the reply was cut at maxOutputTokens",
    "model_context_window_exceeded": "the conversation no longer fits the model's window",
    "refusal": "the model refused to go on",
}
"""Stop reasons of a last reply that is not an answer."""
HOPELESS = ("model_context_window_exceeded", "refusal")
"""Those after which asking again cannot help, so that calls of such a reply are not made."""


def next_steps(state: State, spec: AgentRunSpec, intent: Intent) -> tuple[Step, ...]:
    """What may run now. Empty once the run has an outcome or is suspended."""
    if state.outcome is not None or state.suspended is not None:
        return ()
    if intent.requested == "cancel":
        return (_cancelled(intent),)
    if intent.requested == "suspend" and not _finished(state):
        return (_suspended(intent),)
    steps = tuple(_work(state, spec, intent))
    return steps or (_end(state, spec, intent),)


def _cancelled(intent: Intent) -> Finish:
    if intent.reason == "Deadline":
        return Finish("Failed", Reason.DEADLINE_EXCEEDED, "limits.deadlineSeconds passed")
    if intent.reason == "Budget":
        return Finish("Failed", Reason.BUDGET_EXCEEDED, "limits.activeDeadlineSeconds used up")
    return Finish("Cancelled", Reason.CANCELLED_BY_USER, "spec.cancel was set")


def _suspended(intent: Intent) -> Suspend:
    if intent.reason == "Budget":
        return Suspend(Reason.BUDGET_EXCEEDED, "limits.activeDeadlineSeconds used up")
    return Suspend(Reason.SUSPENDED_BY_USER, "spec.suspend is set")


def _finished(state: State) -> bool:
    """Nothing is left but to write the outcome: a suspension would only delay it."""
    return bool(state.tasks) and all(
        task.phase in (TaskPhase.COMPLETED, TaskPhase.FAILED) for task in state.tasks.values()
    )


def _work(state: State, spec: AgentRunSpec, intent: Intent) -> Iterator[Step]:
    agent = spec.entry_agent
    task = state.tasks.get(MAIN_TASK) or Task(MAIN_TASK, "")
    if task.phase in (TaskPhase.COMPLETED, TaskPhase.FAILED):
        return
    if agent is None:
        yield FailTask(task.id, Reason.INVALID_SPEC, "no agent to run the prompt")
    elif task.phase is TaskPhase.PENDING:
        if agent.tools and agent.name not in state.toolsets:
            yield OfferTools(agent.name)
        else:
            yield StartTask(task.id)
    else:
        yield from _conversation(state, spec, intent, task, agent)


def _conversation(
    state: State, spec: AgentRunSpec, intent: Intent, task: Task, agent: AgentSpec
) -> Iterator[Step]:
    conversation = state.conversations[task.id]
    ended = conversation.phase is ConversationPhase.COMPLETED
    in_round = conversation.phase is ConversationPhase.EXECUTING_TOOLS
    why = UNFINISHED.get(conversation.stop_reason)
    if why is not None and (ended or (in_round and conversation.stop_reason in HOPELESS)):
        yield FailTask(task.id, Reason.MODEL_ERROR, why)
    elif ended:
        yield CompleteTask(task.id)
    elif in_round:
        yield from _round(state, spec, conversation)
    elif over := _own_limit(conversation, agent):
        yield over
    elif exceeded(state.totals, intent.limits) is None:
        yield CallModel(conversation.path, conversation.turn + 1)


def _own_limit(conversation: Conversation, agent: AgentSpec) -> FailTask | None:
    """An agent's own limits end its task; only the run's budgets suspend."""
    if conversation.turn >= agent.max_turns:
        return FailTask(
            conversation.path,
            Reason.MAX_TURNS_EXCEEDED,
            f"agent {agent.name}: maxTurns {agent.max_turns} used without a final answer",
        )
    used = conversation.totals.tokens
    if agent.max_tokens is not None and used >= agent.max_tokens:
        return FailTask(
            conversation.path,
            Reason.BUDGET_EXCEEDED,
            f"agent {agent.name}: {used} of maxTokens {agent.max_tokens} used",
        )
    return None


def _round(state: State, spec: AgentRunSpec, conversation: Conversation) -> Iterator[Step]:
    if all(call.phase is CallPhase.COMMITTED for call in conversation.calls):
        yield CloseRound(conversation.path)
        return
    if (
        lost := next((call for call in conversation.calls if _is_fatal(spec, call)), None)
    ) is not None:
        why = f"the outcome of {lost.tool} is unknown, and its policy is onUnknown: Fail"
        yield FailTask(conversation.path, Reason.TOOL_OUTCOME_UNKNOWN, why)
        return
    for call in conversation.calls:
        step = _call(state, spec, conversation, call)
        if step is not None:
            yield step


def _is_fatal(spec: AgentRunSpec, call: Call) -> bool:
    return (
        call.phase is CallPhase.UNKNOWN and policy_for(spec, call.tool).on_unknown is OnUnknown.FAIL
    )


def _call(state: State, spec: AgentRunSpec, conversation: Conversation, call: Call) -> Step | None:
    """What the call needs next. One that this attempt has started is under way: whatever changed
    since, its answer counts."""
    if call.phase in (CallPhase.COMMITTED, CallPhase.AWAITING_APPROVAL):
        return None
    if call.phase is not CallPhase.STARTED:
        if (refused := refusal(state, conversation.agent, call)) is not None:
            return refused
        gated = policy_for(spec, call.tool).approval is ApprovalMode.ALWAYS
        if gated and call.phase is CallPhase.REQUESTED:
            return RequestApproval(call.id, call.questions + 1)
    return RunTool(call.id, call.starts + 1)


def _end(state: State, spec: AgentRunSpec, intent: Intent) -> Step:
    """Nothing can run: the run is over, waits for people, or has used up a budget."""
    for task in state.tasks.values():
        if task.phase is TaskPhase.FAILED:
            return Finish("Failed", task.reason, task.message)
    if _finished(state):
        return Finish("Succeeded", Reason.SUCCEEDED)
    waiting = sum(
        call.phase is CallPhase.AWAITING_APPROVAL
        for conversation in state.conversations.values()
        for call in conversation.calls
    )
    if waiting:
        return Suspend(Reason.APPROVAL_PENDING, f"{waiting} tool call(s) wait for a decision")
    spent = exceeded(state.totals, intent.limits)
    assert spent is not None, "nothing else keeps a run from going on"
    if spec.limits.on_exceeded is OnExceeded.FAIL:
        return Finish("Failed", Reason.BUDGET_EXCEEDED, spent)
    return Suspend(Reason.BUDGET_EXCEEDED, spent)
