"""What the model is told about a call that was not sent, or not sent again: nothing untrue."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.run.pure_runner import PureRunner, asks, main_call, make_spec, offer, says, text

from agentrun.errors import CheckpointCorrupt
from agentrun.run.approvals import question_about
from agentrun.run.fold import OPERATOR, RUNNER, fold
from agentrun.run.identity import CallId
from agentrun.run.records import (
    ApprovalDecision,
    ApprovalRequest,
    AttemptStart,
    Record,
    ToolResult,
    ToolsetOffered,
    ToolStart,
    ToolUnknown,
)
from agentrun.run.state import CallPhase
from agentrun.run.steps import FailTask, RefuseCall, RunTool
from agentrun.run.values import Question, ToolSilence

GATED = [{"tools": ["ops.fix"], "approval": "Always"}]
LESS = ToolsetOffered(agent="sre", tools=(offer("look"),))
PERHAPS = "may or may not have had its effect"


def playing(**spec: object) -> PureRunner:
    return PureRunner(
        make_spec(**spec), lambda turn, _: asks("fix", turn=1) if turn == 1 else text("done")
    ).attempt()


def in_round(**spec: object) -> PureRunner:
    runner = playing(**spec)
    while runner.state.totals.turns == 0:
        runner.do(runner.steps()[0])
    return runner


def decided(decision: str, by: str = "ann", reason: str = "") -> PureRunner:
    runner = playing(toolPolicies=GATED).run()
    record = ApprovalDecision(
        id=runner.questions[0].id, decision=decision, decided_by=by, reason=reason
    )
    runner.commit(OPERATOR, [record])
    return runner.crash()


def told(runner: PureRunner) -> tuple[str, str]:
    """Origin and words of the one step."""
    (step,) = runner.steps()
    assert isinstance(step, RefuseCall)
    return step.origin, step.message


def test_a_person_denied_it() -> None:
    origin, words = told(decided("Deny", reason="not on a Friday"))
    assert origin == "denied"
    assert words == "A person denied this call; it was not made. Reason given: not on a Friday"


def test_nobody_denied_it_but_the_clock() -> None:
    origin, words = told(decided("Deny", by="", reason="nobody decided in time"))
    assert origin == "denied"
    assert "person" not in words
    assert "nobody decided in time" in words


def test_what_was_reviewed_is_stale() -> None:
    origin, words = told(decided("Stale", by="ann"))
    assert origin == "stale"
    assert "person" not in words
    assert "not made" in words


def test_an_approved_tool_that_was_withdrawn_is_stale() -> None:
    runner = decided("Approve")
    runner.commit(RUNNER, [LESS])
    assert told(runner)[0] == "stale"


def test_i5_an_approved_call_that_is_not_what_was_reviewed_is_stale() -> None:
    runner = decided("Approve")
    runner.state.conversations["main"].calls[0].arguments = {"n": 2}
    origin, words = told(runner)
    assert origin == "stale"
    assert "not what was reviewed" in words
    runner.run()
    assert runner.calls == []


def test_a_call_that_was_sent_is_never_called_undone_when_its_tool_is_withdrawn() -> None:
    runner = in_round()
    runner.tool = lambda call: ToolSilence("cut")
    runner.do(runner.steps()[0])
    runner.commit(RUNNER, [LESS])
    origin, words = told(runner)
    assert origin == "unknown"
    assert PERHAPS in words
    runner.run()
    assert PERHAPS in runner.transcript[2]["content"][0]["content"][0]["text"]


def test_a_call_that_had_started_when_the_pod_died_is_unknown_to_the_next_attempt() -> None:
    runner = in_round(toolPolicies=[{"tools": ["ops.*"], "onUnknown": "Ask"}])
    runner.commit(RUNNER, [ToolStart(call="main/1/1/0", ordinal=1, timeout_ms=1)])
    assert runner.steps() == (RunTool(main_call(1, 0), 1),), "under way"
    runner.crash()
    assert runner.state.conversations["main"].calls[0].phase is CallPhase.UNKNOWN
    runner.commit(RUNNER, [LESS])
    assert told(runner)[0] == "unknown"


def test_a_call_under_way_stays_under_way_when_its_tool_is_withdrawn() -> None:
    runner = in_round(toolPolicies=[{"tools": ["ops.*"], "onUnknown": "Ask"}])
    runner.commit(RUNNER, [ToolStart(call="main/1/1/0", ordinal=1, timeout_ms=1)])
    runner.commit(RUNNER, [LESS])
    assert runner.steps() == (RunTool(main_call(1, 0), 1),)


def test_starts_that_no_attempt_survived_are_bounded() -> None:
    runner = in_round(toolPolicies=[{"tools": ["ops.*"], "onUnknown": "Ask"}])
    for ordinal in (1, 2, 3):
        runner.commit(RUNNER, [ToolStart(call="main/1/1/0", ordinal=ordinal, timeout_ms=1)])
        runner.crash()
    origin, words = told(runner)
    assert origin == "unknown"
    assert "did not answer 3 times" in words


@pytest.mark.parametrize("how", ["silence", "crash"])
def test_on_unknown_fail_fails_the_run(how: str) -> None:
    runner = in_round(toolPolicies=[{"tools": ["ops.*"], "onUnknown": "Fail"}])
    runner.commit(RUNNER, [ToolStart(call="main/1/1/0", ordinal=1, timeout_ms=1)])
    if how == "silence":
        runner.commit(RUNNER, [ToolUnknown(call="main/1/1/0", ordinal=1, why="cut")])
    else:
        runner.crash()
    (step,) = runner.steps()
    assert isinstance(step, FailTask)
    runner.run()
    assert runner.state.outcome is not None
    assert runner.state.outcome.reason == "ToolOutcomeUnknown"
    assert runner.calls == []


def test_h67_a_denied_second_question_does_not_say_that_nothing_happened() -> None:
    """H67: the question after an unknown outcome is another one, with its own answer."""
    runner = decided("Approve")
    runner.tool = lambda call: ToolSilence("cut")
    runner.do(runner.steps()[0])
    call = runner.state.conversations["main"].calls[0]
    second = question_about(runner.state.run_uid, "sre", call, 2, "")
    runner.commit(
        RUNNER,
        [
            ApprovalRequest(
                id=second.id,
                scope="Tool",
                boundary=second.boundary,
                ordinal=2,
                content_hash=second.content_hash,
            )
        ],
    )
    runner.run()
    runner.decide(second, "Deny")
    runner.crash()
    origin, words = told(runner)
    assert origin == "denied"
    assert PERHAPS in words
    assert [approval.decision for approval in runner.state.approvals.values()] == [
        "Approve",
        "Deny",
    ]


def test_h67_an_answer_is_spent_on_its_own_question_and_questions_are_counted() -> None:
    runner = decided("Approve")
    first = runner.questions[0]
    runner.tool = lambda call: ToolSilence("cut")
    runner.do(runner.steps()[0])
    call = runner.state.conversations["main"].calls[0]

    def ask(runner: PureRunner, ordinal: int) -> Question:
        asked = question_about(runner.state.run_uid, "sre", call, ordinal, "")
        record = ApprovalRequest(
            id=asked.id,
            scope="Tool",
            boundary=asked.boundary,
            ordinal=ordinal,
            content_hash=asked.content_hash,
        )
        runner.commit(RUNNER, [record])
        return asked

    for ordinal in (1, 3):
        with pytest.raises(CheckpointCorrupt):
            ask(replace(runner, state=runner.folded(), commits=list(runner.commits)), ordinal)
    second = ask(runner, 2)
    runner.run()
    with pytest.raises(CheckpointCorrupt):
        replace(runner, state=runner.folded(), commits=list(runner.commits)).decide(
            first, "Approve"
        )
    runner.decide(second, "Approve")
    runner.tool = lambda call: says("done")
    runner.crash().run()
    assert runner.state.outcome is not None
    assert runner.state.outcome.outcome == "Succeeded"


def waiting() -> PureRunner:
    """Asked, and not decided."""
    runner = playing(toolPolicies=GATED)
    while not runner.questions:
        runner.do(runner.steps()[0])
    return runner


@pytest.mark.parametrize(
    "record",
    [
        ToolStart(call="main/1/1/0", ordinal=1, timeout_ms=1),
        ToolUnknown(call="main/1/1/0", ordinal=1, why="x"),
        ToolResult(call="main/1/1/0", content=""),
    ],
)
@pytest.mark.parametrize("scene", ["waiting", "denied"])
def test_no_record_says_that_a_call_was_sent_before_its_decision_or_after_a_denial(
    record: Record, scene: str
) -> None:
    runner = waiting() if scene == "waiting" else decided("Deny")
    with pytest.raises(CheckpointCorrupt):
        fold(runner.state, RUNNER, [record])


def test_h13_a_decision_in_the_middle_of_an_attempt_is_corrupt() -> None:
    runner = waiting()
    record = ApprovalDecision(id=runner.questions[0].id, decision="Approve", decided_by="ann")
    with pytest.raises(CheckpointCorrupt, match="middle of an attempt"):
        fold(runner.state, OPERATOR, [record])


def test_nothing_of_the_runner_follows_its_suspension() -> None:
    runner = playing(toolPolicies=GATED).run()
    with pytest.raises(CheckpointCorrupt, match="after the suspension"):
        fold(runner.state, RUNNER, [LESS])
    start = AttemptStart(attempt=2, fence=2, trace_id="t", span_id="s")
    fold(runner.state, OPERATOR, [start])
    fold(runner.state, RUNNER, [LESS])


def test_a_call_has_one_spelling() -> None:
    """Else the database would take a second result of a call for the first one of another."""
    for spelling in ("main/+1/1/0", "main/1/01/0", "main/1/1/ 0", "main/1/1/-1", "main/1/1/0\n"):
        with pytest.raises(CheckpointCorrupt):
            fold(in_round().state, RUNNER, [ToolResult(call=spelling, content="")])
    assert CallId.parse("main/1/1/0") == main_call(1, 0)


def test_no_agent_to_run_the_prompt_fails_the_run_once() -> None:
    runner = PureRunner(make_spec(agents=[]), lambda turn, _: text("x")).attempt().run(limit=10)
    assert runner.state.outcome is not None
    assert runner.state.outcome.reason == "InvalidSpec"


def test_an_answer_to_an_approved_call_is_its_result() -> None:
    runner = decided("Approve")
    runner.tool = lambda call: says("restarted")
    runner.run()
    assert "is_error" not in runner.transcript[2]["content"][0]
