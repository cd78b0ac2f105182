"""Whole runs through the pure functions, stopped and started anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.run.pure_runner import PureRunner, asks, main_call, make_spec, says, text

from agentrun.run.fold import check
from agentrun.run.steps import CallModel, CloseRound, Finish, RunTool, Suspend
from agentrun.run.values import Intent, Limits, ModelRequest, Reply, ToolSilence


def three_turns(turn: int, request: ModelRequest) -> Reply:
    return {1: asks("look", "fix", turn=1), 2: asks("look", turn=2)}.get(turn, text("done"))


def test_a_prompt_runs_to_its_answer() -> None:
    runner = PureRunner(make_spec(), three_turns).attempt().run()
    assert runner.state.outcome is not None
    assert runner.state.outcome.outcome == "Succeeded"
    assert runner.state.tasks["main"].result == "done"
    assert [call.tool for call in runner.calls] == ["look", "fix", "look"]
    assert runner.state.totals.turns == 3
    assert runner.state.totals.tool_calls == 3
    assert runner.boundaries[-1].last is not None
    assert runner.boundaries[-1].last.preview == "done"
    check(runner.state)


def test_results_are_in_request_order_whatever_order_they_came_in() -> None:
    runner = PureRunner(make_spec(), three_turns).attempt()
    runner.run(pick=lambda count: count - 1)
    results = runner.transcript[2]["content"]
    assert [block["tool_use_id"] for block in results] == ["toolu_1_0", "toolu_1_1"]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_stopping_anywhere_and_folding_again_gives_the_same_transcript(data: st.DataObject) -> None:
    whole = PureRunner(make_spec(), three_turns).attempt().run()
    runner = PureRunner(make_spec(), three_turns).attempt()
    while runner.steps():
        steps = runner.steps()
        step = steps[data.draw(st.integers(0, len(steps) - 1))]
        runner.do(step)
        if runner.state.outcome is None and data.draw(st.booleans()):
            runner.crash()
    assert runner.transcript == whole.transcript
    assert len(runner.calls) == len(whole.calls)
    assert runner.state.totals == whole.state.totals


@pytest.mark.parametrize("lost", range(1, 9))
def test_a_lost_tail_repeats_at_most_the_uncommitted_step(lost: int) -> None:
    whole = PureRunner(make_spec(), three_turns).attempt().run()
    runner = PureRunner(make_spec(), three_turns).attempt()
    for _ in range(lost):
        runner.do(runner.steps()[0])
    sent = list(runner.requests)
    runner.crash(keep=len(runner.commits) - 1)
    runner.run()
    assert runner.transcript == whole.transcript
    keys = [call.key for call in runner.calls]
    assert len(keys) - len(set(keys)) <= 1, "only the call whose result was lost is sent again"
    assert set(sent) <= set(runner.requests[len(sent) :]) | set(sent[:-1]) | set(whole.requests)


def test_the_next_attempt_sends_the_same_bytes() -> None:
    runner = PureRunner(make_spec(), three_turns).attempt()
    while not isinstance(runner.steps()[0], CallModel) or runner.state.totals.turns < 1:
        runner.do(runner.steps()[0])
    before = list(runner.requests)
    runner.do(runner.steps()[0])
    lost = runner.requests[-1]
    runner.crash(keep=len(runner.commits) - 1)
    runner.do(runner.steps()[0])
    assert runner.requests[-1] == lost
    assert lost not in before


def test_all_calls_of_a_round_may_run_at_once() -> None:
    runner = PureRunner(make_spec(), three_turns).attempt()
    while not any(isinstance(step, RunTool) for step in runner.steps()):
        runner.do(runner.steps()[0])
    assert runner.steps() == (RunTool(main_call(1, 0), 1), RunTool(main_call(1, 1), 1))
    runner.do(runner.steps()[1])
    assert runner.steps() == (RunTool(main_call(1, 0), 1),)
    runner.do(runner.steps()[0])
    assert runner.steps() == (CloseRound("main"),)


def test_h3_an_unknown_outcome_is_sent_again_with_the_same_key() -> None:
    answers = iter([ToolSilence("timed out"), says("done")])
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("fix", turn=1) if turn == 1 else text("ok")
    )
    runner.tool = lambda call: next(answers)
    runner.attempt().run()
    assert len({call.key for call in runner.calls}) == 1
    assert len(runner.calls) == 2
    assert runner.transcript[2]["content"][0]["content"][0]["text"] == "done"


def test_a_call_that_never_answers_becomes_an_error_result_after_three_sends() -> None:
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("fix", turn=1) if turn == 1 else text("ok")
    )
    runner.tool = lambda call: ToolSilence("connection closed")
    runner.attempt().run()
    assert len(runner.calls) == 3
    result = runner.transcript[2]["content"][0]
    assert result["is_error"]
    assert "did not answer 3 times" in result["content"][0]["text"]


def test_h5_a_repeated_call_id_is_another_call() -> None:
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("fix", turn=0) if turn < 3 else text("ok")
    )
    runner.attempt().run()
    assert len({call.model_id for call in runner.calls}) == 1
    assert len({call.key for call in runner.calls}) == 2
    refs = [boundary.ref for boundary in runner.boundaries if boundary.kind == "tool/result"]
    assert len(set(refs)) == len(refs) == 2, "the database takes one result for each"


def test_h6_another_run_has_other_keys_although_it_shares_the_logical_id() -> None:
    runner = PureRunner(make_spec(runId="nightly"), three_turns).attempt().run()
    other = PureRunner(make_spec(runId="nightly"), three_turns).attempt()
    other.state.run_uid = "another"
    other.run()
    assert {call.run_id for call in (*runner.calls, *other.calls)} == {"nightly"}
    assert not {call.key for call in runner.calls} & {call.key for call in other.calls}


@pytest.mark.parametrize(
    ("limits", "used"),
    [(Limits(turns=1), "limits.turns"), (Limits(tokens=10), "limits.tokens")],
)
def test_h35_a_spent_budget_suspends_and_raising_it_goes_on(limits: Limits, used: str) -> None:
    runner = PureRunner(make_spec(), three_turns, intent=Intent(limits=limits)).attempt().run()
    assert runner.state.suspended is not None
    assert runner.state.suspended.reason == "BudgetExceeded"
    assert used in runner.state.suspended.message
    turns = runner.state.totals.turns
    runner.intent = Intent()
    runner.crash().run()
    assert runner.state.outcome is not None
    assert runner.state.totals.turns == turns + 2, "nothing restarted from zero"


def test_h35_a_spent_budget_fails_the_run_where_asked() -> None:
    spec = make_spec(limits={"onExceeded": "Fail"})
    runner = PureRunner(spec, three_turns, intent=Intent(limits=Limits(turns=2))).attempt().run()
    assert runner.state.outcome is not None
    assert (runner.state.outcome.outcome, runner.state.outcome.reason) == (
        "Failed",
        "BudgetExceeded",
    )


def test_the_last_reply_over_budget_still_succeeds() -> None:
    runner = (
        PureRunner(make_spec(), three_turns, intent=Intent(limits=Limits(turns=3))).attempt().run()
    )
    assert runner.state.outcome is not None
    assert runner.state.outcome.outcome == "Succeeded"


def test_max_turns_of_the_agent_fail_its_task() -> None:
    agents = [{"name": "sre", "tools": ["ops.*"], "maxTurns": 2}]
    runner = (
        PureRunner(make_spec(agents=agents), lambda turn, _: asks("look", turn=turn))
        .attempt()
        .run()
    )
    assert runner.state.outcome is not None
    assert runner.state.outcome.reason == "MaxTurnsExceeded"
    assert runner.state.totals.turns == 2


def test_max_tokens_of_the_agent_fail_its_task_and_no_attempt_starts_them_anew() -> None:
    agents = [{"name": "sre", "tools": ["ops.*"], "maxTokens": 25}]
    runner = PureRunner(make_spec(agents=agents), lambda turn, _: asks("look", turn=turn)).attempt()
    while runner.steps():
        runner.do(runner.steps()[0])
        if runner.state.outcome is None:
            runner.crash()
    assert runner.state.outcome is not None
    assert (runner.state.outcome.outcome, runner.state.outcome.reason) == (
        "Failed",
        "BudgetExceeded",
    )
    assert "30 of maxTokens 25" in runner.state.outcome.message
    assert runner.state.totals.turns == 3


@pytest.mark.parametrize(
    ("intent", "outcome", "reason"),
    [
        (Intent("cancel", "User"), "Cancelled", "CancelledByUser"),
        (Intent("cancel", "Deadline"), "Failed", "DeadlineExceeded"),
        (Intent("cancel", "Budget"), "Failed", "BudgetExceeded"),
    ],
)
def test_h27_a_cancel_carries_its_reason(intent: Intent, outcome: str, reason: str) -> None:
    runner = PureRunner(make_spec(), three_turns).attempt()
    runner.do(runner.steps()[0])
    runner.intent = intent
    steps = runner.steps()
    assert len(steps) == 1
    assert isinstance(steps[0], Finish)
    assert (steps[0].outcome, steps[0].reason) == (outcome, reason)


def test_suspend_stops_at_the_boundary_and_the_next_attempt_goes_on() -> None:
    runner = PureRunner(make_spec(), three_turns).attempt()
    for _ in range(4):
        runner.do(runner.steps()[0])
    runner.intent = Intent("suspend", "User")
    assert runner.steps() == (Suspend("SuspendedByUser", "spec.suspend is set"),)
    runner.run()
    assert runner.steps() == ()
    runner.intent = Intent()
    runner.crash().run()
    assert runner.state.outcome is not None
    assert runner.state.outcome.outcome == "Succeeded"


def test_a_finished_run_is_not_suspended_for_nothing() -> None:
    runner = PureRunner(make_spec(), lambda turn, _: text("done")).attempt()
    while runner.state.tasks["main"].phase != "completed":
        runner.do(runner.steps()[0])
    runner.intent = Intent("suspend", "User")
    assert runner.steps() == (Finish("Succeeded", "Succeeded"),)


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_a_reply_that_is_no_answer_fails_the_run(stop: str) -> None:
    reply = Reply([{"type": "text", "text": "half"}], (), stop, "m", "x", text("").usage)
    runner = PureRunner(make_spec(), lambda turn, _: reply).attempt().run()
    assert runner.state.outcome is not None
    assert (runner.state.outcome.outcome, runner.state.outcome.reason) == ("Failed", "ModelError")


def test_a_paused_turn_is_continued() -> None:
    paused = Reply([{"type": "text", "text": "…"}], (), "pause_turn", "m", "x", text("").usage)
    runner = (
        PureRunner(make_spec(), lambda turn, _: paused if turn == 1 else text("done"))
        .attempt()
        .run()
    )
    assert runner.state.totals.turns == 2
    assert runner.state.tasks["main"].result == "done"


def test_calls_of_a_reply_that_was_cut_are_not_sent() -> None:
    cut = asks("fix", turn=1)
    cut = Reply(cut.content, cut.requested, "max_tokens", "m", "x", cut.usage)
    runner = (
        PureRunner(make_spec(), lambda turn, _: cut if turn == 1 else text("done")).attempt().run()
    )
    assert runner.calls == []
    assert runner.transcript[2]["content"][0]["is_error"]


@pytest.mark.parametrize(
    ("position", "kept"),
    [
        ("AfterTools", ["after_tools", "after_tools"]),
        ("AfterModel", ["after_model", "after_model"]),
        ("Both", ["after_model", "after_tools", "after_model", "after_tools"]),
    ],
)
def test_bookmarks_are_kept_where_asked_and_completed_at_the_end(
    position: str, kept: list[str]
) -> None:
    runner = PureRunner(make_spec(checkpoint={"position": position}), three_turns).attempt().run()
    saved = [
        record
        for boundary in runner.boundaries
        for record in boundary.records
        if getattr(record, "type", "") == "bookmark/saved"
    ]
    active = [record for record in saved if record.execution_status == "active"]
    assert [record.position for record in active] == kept
    assert saved[-1].execution_status == "completed"
    assert runner.state.bookmark is not None
    assert runner.state.bookmark.message_count == len(runner.transcript)
