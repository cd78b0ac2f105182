"""What the fold refuses: nothing is guessed, skipped or repaired."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.run.pure_runner import PureRunner, asks, make_spec, text

from agentrun.errors import CheckpointCorrupt
from agentrun.run.fold import OPERATOR, RUNNER, check, fold
from agentrun.run.records import (
    ApprovalDecision,
    ApprovalRequest,
    AssistantMessage,
    AttemptEnd,
    AttemptStart,
    Record,
    RunEnd,
    RunStart,
    TaskStatus,
    ToolCall,
    ToolResult,
    ToolStart,
    ToolUnknown,
    TurnEnd,
    Usage,
    UserMessage,
)
from agentrun.run.state import State


def at(stop: Callable[[PureRunner], bool]) -> PureRunner:
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("look", "fix", turn=1) if turn == 1 else text("done")
    ).attempt()
    while not stop(runner):
        runner.do(runner.steps()[0])
    return runner


def opened() -> PureRunner:
    return at(lambda runner: "main" in runner.state.conversations)


def in_round() -> PureRunner:
    return at(lambda runner: runner.state.totals.turns == 1)


def one_result() -> PureRunner:
    return at(lambda runner: runner.state.totals.tool_calls == 1)


def answered() -> PureRunner:
    return at(lambda runner: runner.state.totals.turns == 2)


REPLY = AssistantMessage(conversation="main", turn=1, content=[], usage=Usage())
START2 = AttemptStart(attempt=2, fence=2, trace_id="t", span_id="s")

CASES: list[tuple[str, Callable[[], PureRunner], str, Record]] = [
    ("second run start", opened, OPERATOR, RunStart(run_uid="x", mode="prompt", spec_hash="")),
    (
        "attempt skipped",
        opened,
        OPERATOR,
        AttemptStart(attempt=3, fence=3, trace_id="", span_id=""),
    ),
    (
        "fence not raised",
        opened,
        OPERATOR,
        AttemptStart(attempt=2, fence=1, trace_id="", span_id=""),
    ),
    ("end of another attempt", opened, OPERATOR, AttemptEnd(attempt=7, cause="x", fault="App")),
    ("h47 attempt by the runner", opened, RUNNER, START2),
    (
        "h47 attempt end by the runner",
        opened,
        RUNNER,
        AttemptEnd(attempt=1, cause="x", fault="None"),
    ),
    (
        "unknown conversation",
        opened,
        RUNNER,
        AssistantMessage(conversation="x", turn=1, content=[], usage=Usage()),
    ),
    (
        "reply skips a turn",
        opened,
        RUNNER,
        AssistantMessage(conversation="main", turn=2, content=[], usage=Usage()),
    ),
    (
        "reply during a round",
        in_round,
        RUNNER,
        AssistantMessage(conversation="main", turn=2, content=[], usage=Usage()),
    ),
    (
        "reply after the end",
        answered,
        RUNNER,
        AssistantMessage(conversation="main", turn=3, content=[], usage=Usage()),
    ),
    (
        "conversation opens twice",
        opened,
        RUNNER,
        UserMessage(conversation="main", origin="input", content=[]),
    ),
    (
        "results without a round",
        opened,
        RUNNER,
        UserMessage(conversation="main", origin="tool_results"),
    ),
    (
        "round closes early",
        one_result,
        RUNNER,
        UserMessage(conversation="main", origin="tool_results"),
    ),
    (
        "call nobody asked for",
        opened,
        RUNNER,
        ToolCall(conversation="main", turn=0, index=0, id="x", name="y", tool="", arguments={}),
    ),
    (
        "one call too many",
        in_round,
        RUNNER,
        ToolCall(conversation="main", turn=1, index=2, id="x", name="y", tool="", arguments={}),
    ),
    ("result of no call", in_round, RUNNER, ToolResult(call="main/1/1/9", content="")),
    ("result of no round", opened, RUNNER, ToolResult(call="main/1/1/0", content="")),
    ("result with a bad identity", in_round, RUNNER, ToolResult(call="main", content="")),
    ("second result", one_result, RUNNER, ToolResult(call="main/1/1/0", content="")),
    (
        "start of a committed call",
        one_result,
        RUNNER,
        ToolStart(call="main/1/1/0", ordinal=1, timeout_ms=1),
    ),
    (
        "start skips an ordinal",
        in_round,
        RUNNER,
        ToolStart(call="main/1/1/0", ordinal=2, timeout_ms=1),
    ),
    (
        "unknown skips an ordinal",
        in_round,
        RUNNER,
        ToolUnknown(call="main/1/1/0", ordinal=3, why=""),
    ),
    (
        "turn ends before its round",
        in_round,
        RUNNER,
        TurnEnd(conversation="main", turn=1, outcome="tool_use"),
    ),
    ("task completes early", in_round, RUNNER, TaskStatus(task="main", try_=1, status="completed")),
    (
        "task starts twice",
        opened,
        RUNNER,
        TaskStatus(task="main", agent="sre", try_=2, status="in_progress"),
    ),
    (
        "no such task",
        opened,
        RUNNER,
        TaskStatus(task="x", agent="sre", try_=1, status="in_progress"),
    ),
    (
        "decision without a question",
        in_round,
        OPERATOR,
        ApprovalDecision(id="apr-x", decision="Approve", decided_by="a"),
    ),
    (
        "question about a committed call",
        one_result,
        RUNNER,
        ApprovalRequest(id="q", scope="Tool", boundary="main/1/1/0", ordinal=1, content_hash=""),
    ),
    (
        "question skips an ordinal",
        in_round,
        RUNNER,
        ApprovalRequest(id="q", scope="Tool", boundary="main/1/1/0", ordinal=2, content_hash=""),
    ),
]


@pytest.mark.parametrize(
    ("scene", "origin", "record"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_what_does_not_fit_is_corrupt(
    scene: Callable[[], PureRunner], origin: str, record: Record
) -> None:
    with pytest.raises(CheckpointCorrupt):
        fold(scene().state, origin, [record])


def test_h47_a_decision_in_a_runner_commit_is_refused_whatever_it_decides() -> None:
    runner = PureRunner(
        make_spec(toolPolicies=[{"tools": ["ops.fix"], "approval": "Always"}]),
        lambda turn, _: asks("fix", turn=1),
    ).attempt()
    runner.run()
    forged = ApprovalDecision(id=runner.questions[0].id, decision="Approve", decided_by="me")
    with pytest.raises(CheckpointCorrupt, match="in a commit of the runner"):
        fold(runner.state, RUNNER, [forged])


def test_nothing_follows_the_outcome() -> None:
    state = in_round().state
    fold(state, OPERATOR, [RunEnd(outcome="Cancelled")])
    with pytest.raises(CheckpointCorrupt, match="after the outcome"):
        fold(state, RUNNER, [ToolResult(call="main/1/1/0", content="")])


def test_h1_a_reply_without_its_calls_is_corrupt() -> None:
    reply = AssistantMessage(
        conversation="main",
        turn=1,
        content=[{"type": "tool_use", "id": "t", "name": "n", "input": {}}],
        usage=Usage(),
    )
    with pytest.raises(CheckpointCorrupt, match="without all of its calls"):
        fold(opened().state, RUNNER, [reply])


def test_an_attempt_before_the_run_is_corrupt() -> None:
    with pytest.raises(CheckpointCorrupt):
        fold(State(), OPERATOR, [AttemptStart(attempt=1, fence=1, trace_id="", span_id="")])


@pytest.mark.parametrize(
    "damage", ["drop result", "reorder", "drop user", "second answer", "tool_use by user"]
)
def test_a_damaged_conversation_is_corrupt(damage: str) -> None:
    state = answered().state
    messages = state.conversations["main"].messages
    if damage == "drop result":
        messages[2]["content"].pop()
    elif damage == "reorder":
        messages[2]["content"].reverse()
    elif damage == "drop user":
        messages.pop(0)
    elif damage == "second answer":
        messages[2]["content"].append(messages[2]["content"][0])
    else:
        messages[2]["content"].append({"type": "tool_use", "id": "x"})
    with pytest.raises(CheckpointCorrupt, match="invalid conversation"):
        check(state)
    assert check(answered().state).totals.turns == 2


def test_h5_repeated_ids_in_one_reply_are_corrupt() -> None:
    state = in_round().state
    block = {"type": "tool_use", "id": "same", "name": "ops__look", "input": {}}
    state.conversations["main"].messages[1]["content"] = [block, block]
    with pytest.raises(CheckpointCorrupt, match="repeats"):
        check(state)
