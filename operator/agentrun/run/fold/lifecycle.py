"""Run, attempts, tasks, suspension and outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentrun.run.fold.refuse import corrupt, task_of
from agentrun.run.identity import MAIN_TASK
from agentrun.run.records import (
    AttemptEnd,
    AttemptStart,
    Record,
    RunEnd,
    RunStart,
    RunSuspend,
    TaskStatus,
)
from agentrun.run.state import CallPhase, ConversationPhase, State, Task, TaskPhase


def run_start(state: State, record: RunStart) -> None:
    """The first record; a second one would start a run over."""
    if state.run_uid:
        raise corrupt("the run starts twice")
    state.run_uid = record.run_uid
    state.mode = record.mode
    state.spec_hash = record.spec_hash
    state.tasks[MAIN_TASK] = Task(MAIN_TASK, "")


def attempt_start(state: State, record: AttemptStart) -> None:
    """A new owner: attempts and fences only grow; whatever suspended the run is over. Of a call that
    the owner before had started and not settled, nobody knows what came."""
    if not state.run_uid:
        raise corrupt("an attempt starts before the run")
    if record.attempt != state.attempt + 1 or record.fence <= state.fence:
        raise corrupt(f"attempt {record.attempt} follows attempt {state.attempt}")
    state.attempt = record.attempt
    state.fence = record.fence
    state.continued_from = record.continued_from
    state.suspended = None
    for conversation in state.conversations.values():
        for call in conversation.calls:
            if call.phase is CallPhase.STARTED:
                call.phase = CallPhase.UNKNOWN


def attempt_end(state: State, record: AttemptEnd) -> None:
    """Kept for the reader of the record; the state has nothing that depends on it."""
    if record.attempt != state.attempt:
        raise corrupt(f"attempt {record.attempt} ends, attempt {state.attempt} is current")


def run_end(state: State, record: RunEnd) -> None:
    """The outcome; :func:`agentrun.run.fold.fold` refuses whatever follows."""
    state.outcome = record


def run_suspend(state: State, record: RunSuspend) -> None:
    """The attempt gave its pod back."""
    state.suspended = record


def task_status(state: State, record: TaskStatus) -> None:
    """A task's phase moves forward only."""
    task = task_of(state, record.task)
    if record.status == "in_progress":
        if task.phase is not TaskPhase.PENDING or not record.agent:
            raise corrupt(f"task starts in phase {task.phase}", record.task)
        task.agent = record.agent
        task.try_ = record.try_
        task.phase = TaskPhase.IN_PROGRESS
        return
    if task.phase is not TaskPhase.IN_PROGRESS or record.try_ != task.try_:
        raise corrupt(f"task ends in phase {task.phase}", record.task)
    task.phase = TaskPhase(record.status)
    task.result, task.reason, task.message = record.result, record.reason, record.message
    conversation = state.conversations.get(record.task)
    if task.phase is TaskPhase.COMPLETED and (
        conversation is None or conversation.phase is not ConversationPhase.COMPLETED
    ):
        raise corrupt("task completed before its conversation", record.task)


def whole_start(state: State, task: str) -> None:
    """A task starts with its conversation, or fails without one."""
    if state.tasks[task].phase is TaskPhase.IN_PROGRESS and task not in state.conversations:
        raise corrupt("a task without its conversation", task)


APPLY: dict[type[Record], Callable[[State, Any], None]] = {
    RunStart: run_start,
    AttemptStart: attempt_start,
    AttemptEnd: attempt_end,
    RunEnd: run_end,
    RunSuspend: run_suspend,
    TaskStatus: task_status,
}
WHOLE: dict[type[Record], tuple[str, Callable[[State, str], None]]] = {
    TaskStatus: ("task", whole_start),
}
