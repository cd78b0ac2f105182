"""Sums over a run are stored, whatever a provider counts."""

from __future__ import annotations

import pytest

from agentrun.run.records import AssistantMessage, Usage
from agentrun.run.state import Totals
from agentrun.run.totals import LARGEST, after

HUGE = 2**62


@pytest.mark.parametrize("count", [HUGE, LARGEST, 10**30])
def test_a_provider_that_counts_too_much_does_not_stop_the_run(count: int) -> None:
    reply = AssistantMessage(
        conversation="main",
        turn=1,
        content=[],
        model="m",
        message_id="",
        stop_reason="end_turn",
        usage=Usage(
            input_tokens=count,
            output_tokens=count,
            cache_read_tokens=count,
            cache_write_tokens=count,
        ),
        cost=count,
    )
    totals = after(Totals(), [reply, reply, reply])
    assert totals.turns == 3
    assert {
        totals.input_tokens,
        totals.output_tokens,
        totals.cache_read_tokens,
        totals.cache_write_tokens,
        totals.cost,
    } == {LARGEST}
