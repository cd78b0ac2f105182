"""Questions to people: asked once, bound to their content, answered once."""

from __future__ import annotations

from tests.unit.run.pure_runner import PureRunner, asks, main_call, make_spec, offer, says, text

from agentrun.run.approvals import content_hash, tool_content
from agentrun.run.exact import parse_json
from agentrun.run.fold import RUNNER, fold
from agentrun.run.records import ToolsetOffered
from agentrun.run.steps import RequestApproval, RunTool, Suspend
from agentrun.run.values import Intent, ModelRequest, Reply, ToolSilence

GATED = [{"tools": ["ops.fix"], "approval": "Always", "reason": "restarts production"}]


def gated(turn: int, request: ModelRequest) -> Reply:
    return asks("look", "fix", turn=1) if turn == 1 else text("done")


def waiting() -> PureRunner:
    return PureRunner(make_spec(toolPolicies=GATED), gated).attempt().run()


def test_a_gated_call_suspends_the_run_and_its_sibling_settles() -> None:
    runner = waiting()
    assert runner.state.suspended is not None
    assert runner.state.suspended.reason == "ApprovalPending"
    assert [call.tool for call in runner.calls] == ["look"]
    (question,) = runner.questions
    assert question.boundary == "main/1/1/1"
    assert question.reason == "restarts production"
    assert parse_json(question.content)["tool"] == "ops.fix"


def test_approved_it_runs_once_and_nobody_is_asked_again() -> None:
    runner = waiting()
    runner.decide(runner.questions[0], "Approve")
    runner.crash().run()
    assert [call.tool for call in runner.calls] == ["look", "fix"]
    assert len(runner.questions) == 1
    assert runner.state.outcome is not None
    assert runner.state.outcome.outcome == "Succeeded"


def test_denied_the_model_sees_an_error_and_the_tool_does_not_run() -> None:
    runner = waiting()
    runner.decide(runner.questions[0], "Deny", "not on a Friday")
    runner.crash().run()
    assert [call.tool for call in runner.calls] == ["look"]
    denied = runner.transcript[2]["content"][1]
    assert denied["is_error"]
    assert "not on a Friday" in denied["content"][0]["text"]
    assert runner.state.outcome is not None
    assert runner.state.outcome.outcome == "Succeeded"


def test_a_crash_after_the_decision_and_before_the_call_asks_nobody_again() -> None:
    runner = waiting()
    runner.decide(runner.questions[0], "Approve")
    runner.crash()
    runner.crash()
    assert runner.steps() == (RunTool(main_call(1, 1), 1),)


def test_answers_in_reverse_order_reach_their_own_call() -> None:
    policies = [{"tools": ["ops.*"], "approval": "Always"}]
    runner = PureRunner(make_spec(toolPolicies=policies), gated).attempt().run()
    first, second = runner.questions
    runner.decide(second, "Approve")
    runner.decide(first, "Deny")
    runner.crash().run()
    assert [call.tool for call in runner.calls] == ["fix"]
    results = runner.transcript[2]["content"]
    assert results[0]["is_error"]
    assert "is_error" not in results[1]


def test_undecided_the_run_stays_suspended() -> None:
    runner = waiting()
    assert runner.steps() == ()
    runner.crash()
    assert runner.steps() == (Suspend("ApprovalPending", "1 tool call(s) wait for a decision"),)


def test_a_tool_withdrawn_after_the_approval_does_not_run() -> None:
    runner = waiting()
    runner.decide(runner.questions[0], "Approve")
    runner.crash()
    fold(runner.state, RUNNER, [ToolsetOffered(agent="sre", tools=(offer("look"),))])
    runner.run()
    assert [call.tool for call in runner.calls] == ["look"]


def test_a_schema_changed_after_the_approval_does_not_run_what_does_not_fit() -> None:
    runner = waiting()
    runner.decide(runner.questions[0], "Approve")
    runner.crash()
    narrow = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
    fold(
        runner.state,
        RUNNER,
        [ToolsetOffered(agent="sre", tools=(offer("look"), offer("fix", narrow)))],
    )
    runner.run()
    assert [call.tool for call in runner.calls] == ["look"]


def test_an_approved_call_that_falls_silent_is_sent_again_without_a_second_question() -> None:
    runner = waiting()
    runner.decide(runner.questions[0], "Approve")
    answers = iter([ToolSilence("cut"), says("ok")])
    runner.tool = lambda call: next(answers)
    runner.crash().run()
    assert len(runner.questions) == 1
    assert len({call.key for call in runner.calls if call.tool == "fix"}) == 1


def test_the_hash_covers_tool_arguments_run_and_call() -> None:
    runner = waiting()
    call = runner.state.conversations["main"].calls[1]
    base = tool_content("uid", "sre", call)
    hashes = {content_hash("Tool", "main/1/1/1", base)}
    for key, value in (
        ("tool", "ops.x"),
        ("arguments", {"n": 2}),
        ("argumentsJSON", "{ }"),
        ("runUid", "v"),
        ("call", "main/1/1/2"),
    ):
        hashes.add(content_hash("Tool", "main/1/1/1", {**base, key: value}))
    hashes.add(content_hash("Tool", "main/1/1/2", base))
    hashes.add(content_hash("Plan", "main/1/1/1", base))
    assert len(hashes) == 8


def test_h67_a_second_question_about_a_call_has_its_own_identity() -> None:
    runner = waiting()
    first = runner.questions[0]
    call = runner.state.conversations["main"].calls[1]
    from agentrun.run.approvals import question_about

    second = question_about(runner.state.run_uid, "sre", call, 2, "")
    assert first.id != second.id


def test_a_cancel_while_waiting_ends_the_run_without_the_call() -> None:
    runner = waiting()
    runner.intent = Intent("cancel", "User")
    runner.crash().run()
    assert runner.state.outcome is not None
    assert runner.state.outcome.outcome == "Cancelled"
    assert [call.tool for call in runner.calls] == ["look"]


def test_the_first_step_about_a_gated_call_is_the_question() -> None:
    runner = PureRunner(make_spec(toolPolicies=GATED), gated).attempt()
    while runner.state.totals.turns == 0:
        runner.do(runner.steps()[0])
    assert runner.steps()[1] == RequestApproval(main_call(1, 1), 1)
