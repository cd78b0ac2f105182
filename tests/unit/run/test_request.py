"""The exact request: a function of state and spec alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.unit.run.pure_runner import PureRunner, asks, make_spec, text

from agentrun.api import Pricing
from agentrun.devmodel.request import read_request
from agentrun.errors import CheckpointCorrupt
from agentrun.run.budgets import dollars, exceeded
from agentrun.run.capture import Resolved, capture, captured_spec
from agentrun.run.policy import policy_for
from agentrun.run.records import Usage
from agentrun.run.request import build_request
from agentrun.run.state import Totals
from agentrun.run.steps import CallModel
from agentrun.run.totals import cost, picodollars
from agentrun.run.values import Limits


def ready() -> PureRunner:
    agents = [
        {"name": "sre", "tools": ["ops.*"], "instructions": "Be brief.", "temperature": "0.2"}
    ]
    runner = PureRunner(
        make_spec(agents=agents), lambda turn, _: asks("look", turn=1) if turn == 1 else text("x")
    )
    runner.attempt()
    while runner.state.totals.tool_calls == 0 or runner.state.conversations["main"].calls:
        runner.do(runner.steps()[0])
    return runner


def test_the_body_has_what_the_agent_was_given() -> None:
    runner = ready()
    body = json.loads(build_request(runner.state, runner.spec, "main").body)
    assert list(body) == [
        "model",
        "max_tokens",
        "system",
        "tools",
        "messages",
        "temperature",
        "stream",
    ]
    assert body["system"][0]["text"] == "Be brief."
    assert [tool["name"] for tool in body["tools"]] == ["ops__look", "ops__fix"]
    assert body["temperature"] == 0.2
    assert body["messages"][0] == {
        "role": "user",
        "content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}],
    }


def test_thinking_is_asked_for_as_the_provider_takes_it() -> None:
    """It counts thinking in max_tokens, which must be more than that."""
    agents = [{"name": "sre", "thinkingTokens": 8000}]
    runner = PureRunner(make_spec(agents=agents), lambda turn, _: text("x")).attempt()
    while not isinstance(runner.steps()[0], CallModel):
        runner.do(runner.steps()[0])
    request = build_request(runner.state, runner.spec, "main")
    read_request(request.body)
    body = json.loads(request.body)
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (4096 + 8000, 8000)


def test_at_most_four_cache_breakpoints() -> None:
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("look", turn=turn) if turn < 9 else text("x")
    ).attempt()
    while runner.steps():
        if (
            runner.state.conversations.get("main")
            and runner.steps()[0].__class__.__name__ == "CallModel"
        ):
            assert (
                build_request(runner.state, runner.spec, "main").body.count(b"cache_control") <= 4
            )
        runner.do(runner.steps()[0])


def test_the_stored_conversation_is_not_touched_by_building_a_request() -> None:
    runner = ready()
    before = json.dumps(runner.transcript)
    build_request(runner.state, runner.spec, "main")
    assert json.dumps(runner.transcript) == before


def test_two_processes_build_the_same_bytes() -> None:
    program = (
        "from tests.unit.run.test_request import ready; from agentrun.run.request import build_request;"
        "p = ready(); print(build_request(p.state, p.spec, 'main').request_hash)"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_a_request_in_an_open_round_is_refused() -> None:
    runner = PureRunner(make_spec(), lambda turn, _: asks("look", turn=1)).attempt()
    while runner.state.totals.turns == 0:
        runner.do(runner.steps()[0])
    with pytest.raises(CheckpointCorrupt):
        build_request(runner.state, runner.spec, "main")


PRICES = Pricing(input_per_m_tok="3", output_per_m_tok="15", cache_read_per_m_tok="0.3")


def test_cost_is_exact_and_cached_tokens_have_their_own_price() -> None:
    usage = Usage(input_tokens=1, output_tokens=1, cache_read_tokens=1, cache_write_tokens=1)
    assert cost(usage, PRICES) == picodollars("0.0000213")
    assert cost(usage, None) == 0
    assert dollars(picodollars("12.3456789")) == "12.345678"
    assert dollars(0) == "0.00"


@pytest.mark.parametrize(
    ("totals", "limits", "over"),
    [
        (Totals(turns=5), Limits(), False),
        (Totals(turns=5), Limits(turns=6), False),
        (Totals(turns=6), Limits(turns=6), True),
        (
            Totals(input_tokens=4, output_tokens=3, cache_read_tokens=2, cache_write_tokens=1),
            Limits(tokens=10),
            True,
        ),
        (Totals(cost=picodollars("4.99")), Limits(cost=picodollars("5")), False),
        (Totals(cost=picodollars("5")), Limits(cost=picodollars("5")), True),
    ],
)
def test_a_budget_is_spent_once_it_is_reached(totals: Totals, limits: Limits, over: bool) -> None:
    assert (exceeded(totals, limits) is not None) is over


def test_the_first_matching_policy_wins() -> None:
    spec = make_spec(
        toolPolicies=[{"tools": ["ops.fix*"], "approval": "Always"}, {"tools": ["ops.*"]}]
    )
    assert policy_for(spec, "ops.fixit").approval == "Always"
    assert policy_for(spec, "ops.look").approval == "Never"
    assert policy_for(spec, "db.drop").on_unknown == "Rerun"


def test_the_captured_spec_is_resolved_once_and_bound_by_its_hash() -> None:
    spec = make_spec(limits={"costUSD": "5"})
    taken = capture(
        spec, Resolved("a longer prompt" * 100_000, {"sre": "from a ConfigMap"}, PRICES)
    )
    again = captured_spec(taken.spec, taken.spec_hash)
    assert again.prompt == "a longer prompt" * 100_000
    assert again.agents[0].instructions == "from a ConfigMap"
    assert again.pricing == PRICES
    with pytest.raises(CheckpointCorrupt):
        captured_spec(taken.spec + b" ", taken.spec_hash)
