"""What an end costs, and what follows it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.worlds import (
    SETTINGS,
    acts,
    ago,
    charged_row,
    ended_pod,
    first,
    kinds,
    row,
    spec,
    world,
)

from agentrun.cluster.values import ContainerEnd
from agentrun.controller.actions import Charge, CreatePod, Finish, Mint
from agentrun.controller.plan.accounting import backoff_ms
from agentrun.controller.settings import Settings
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import RunState

CRASH, DRAINED = ended_pod(1), ended_pod(143)


@pytest.mark.parametrize(
    ("step", "milliseconds"),
    [
        (0, 10_000),
        (1, 20_000),
        (2, 40_000),
        (4, 160_000),
        (5, 300_000),
        (40, 300_000),
        (10**6, 300_000),
    ],
)
def test_backoff_doubles_up_to_five_minutes(step: int, milliseconds: int) -> None:
    assert backoff_ms(SETTINGS, step) == milliseconds
    assert first(world(row=row(backoff_step=step), pods=(CRASH,))) == Charge(
        AttemptEnd("RunnerFailed", "App", 1), milliseconds
    )


def test_the_base_is_the_operators() -> None:
    quick = Settings(installation="here", backoff_base=0.5)
    assert [backoff_ms(quick, step) for step in range(3)] == [500, 1000, 2000]


@pytest.mark.parametrize(
    ("limits", "counters", "the_pod", "outcome"),
    [
        # retries 6: the seventh App fault is one too many.
        ({}, {"app_faults": 5}, CRASH, None),
        ({}, {"app_faults": 6}, CRASH, "RetriesExhausted"),
        ({"retries": 0}, {}, CRASH, "RetriesExhausted"),
        ({"retries": 1}, {"app_faults": 1}, CRASH, "RetriesExhausted"),
        # App and Infra are counted apart.
        ({}, {"infra_faults": 20}, CRASH, None),
        ({}, {"app_faults": 6}, DRAINED, None),
        ({}, {"infra_faults": 19}, DRAINED, None),
        ({}, {"infra_faults": 20}, DRAINED, "RetriesExhausted"),
        ({"infraRetries": 0}, {}, DRAINED, "RetriesExhausted"),
        # Three App faults at one progress.
        ({}, {"faults_at_progress": 1}, CRASH, None),
        ({}, {"faults_at_progress": 2}, CRASH, "NoProgress"),
        ({"retries": 100}, {"faults_at_progress": 2, "app_faults": 2}, CRASH, "NoProgress"),
        # 78 ends the run whatever is left.
        ({}, {}, ended_pod(78), "BadConfiguration"),
        ({}, {"app_faults": 6}, ended_pod(78), "BadConfiguration"),
    ],
)
def test_an_end_beyond_a_limit_fails_the_run_with_its_reason(
    limits: dict[str, int], counters: dict[str, Any], the_pod: Any, outcome: str | None
) -> None:
    at = world(row=row(**counters), pods=(the_pod,), spec=spec(limits=limits))
    act = first(at)
    if outcome is None:
        assert isinstance(act, Charge | Mint)
        return
    assert isinstance(act, Finish)
    assert (act.state, act.reason) == (RunState.FAILED, outcome)
    assert act.end is not None


def test_h30_preemptions_never_count_as_no_progress() -> None:
    """Three spot preemptions during one long call: App faults only."""
    at = world(
        row=row(faults_at_progress=2, infra_faults=3), pods=(ended_pod(137, disrupted=True),)
    )
    assert kinds(at) == ("Mint", "CreatePod")


def test_h30_poison_is_found_by_the_stores_progress_and_not_by_seq() -> None:
    """attempt/start grows seq at every mint; ``faults_at_progress`` is what counts."""
    at = world(row=row(seq=500, faults_at_progress=2), pods=(CRASH,))
    assert first(at).reason == "NoProgress"  # type: ignore[union-attr]


def test_infra_is_replaced_at_once_and_app_waits() -> None:
    assert kinds(world(pods=(DRAINED,))) == ("Mint", "CreatePod")
    assert kinds(world(pods=(CRASH,))) == ("Charge",)


def test_a_charged_attempt_waits_for_its_backoff() -> None:
    assert acts(world(row=charged_row(), pods=())) == ()


def test_a_charged_attempt_is_followed_when_the_backoff_is_over() -> None:
    over = charged_row(retry_at=ago(seconds=1))
    assert acts(world(row=over, pods=()))[:2] == (Mint("charged"), CreatePod(None))


def test_an_end_is_never_charged_twice() -> None:
    for the_pod in ((CRASH,), (DRAINED,), ()):
        planned = kinds(world(row=charged_row(), pods=the_pod))
        assert "Charge" not in planned
        assert "Finish" not in planned


def test_a_lease_that_expires_during_the_backoff_is_not_a_second_fault() -> None:
    late = charged_row(lease_expires_at=ago(seconds=1))
    assert "Mint" not in kinds(world(row=late, pods=(CRASH,)))


@pytest.mark.parametrize("reason", ["CheckpointNewer", "StoreRegressed"])
def test_h29_a_record_that_cannot_be_gone_on_with_is_tried_later_and_costs_nothing(
    reason: str,
) -> None:
    end = ContainerEnd(75, "Error", None, f'{{"reason": "{reason}", "message": "why"}}')
    at = world(row=row(app_faults=6, faults_at_progress=2), pods=(ended_pod(75, runner_end=end),))
    assert first(at) == Charge(AttemptEnd(reason, "None", 75), 300_000)


def test_the_words_of_a_bad_configuration_reach_the_user() -> None:
    end = ContainerEnd(78, "Error", None, '{"reason": "CheckpointCorrupt", "message": "gap at 7"}')
    act = first(world(pods=(ended_pod(78, runner_end=end),)))
    assert isinstance(act, Finish)
    assert (act.reason, act.message) == ("CheckpointCorrupt", "gap at 7")
