"""Events that only a change of the status brings."""

from __future__ import annotations

import pytest

from agentrun.api import AgentRunStatus, Phase, Reason
from agentrun.controller.events import NEEDS_SOMEBODY, status_event


def shown(phase: Phase, reason: str, message: str = "") -> AgentRunStatus:
    return AgentRunStatus(phase=phase, reason=reason, message=message)


STARTING = shown(Phase.PENDING, Reason.STARTING)


@pytest.mark.parametrize("reason", sorted(NEEDS_SOMEBODY))
def test_describe_says_why_a_run_has_no_pod(reason: Reason) -> None:
    """A name that is taken, or a quota, leaves no pod whose Events could tell."""
    waits = shown(Phase.PENDING, reason, "the pod name one-1a2b3-1 is taken by another owner")
    event = status_event(STARTING, waits)
    assert event is not None
    assert (event.type, event.reason) == ("Warning", reason)
    assert "is taken by another owner" in event.note
    assert status_event(waits, waits) is None


def test_a_start_that_only_takes_its_time_is_no_news() -> None:
    assert status_event(None, STARTING) is None
    assert status_event(STARTING, shown(Phase.PENDING, Reason.UNSCHEDULABLE, "0/2 nodes")) is None
