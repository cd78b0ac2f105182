"""Whose fault: the one ordered list, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.controller.worlds import (
    OLD_ENOUGH,
    ended_pod,
    expired_row,
    pod,
    row,
    suspended_row,
    terminal_row,
    unclaimed_row,
    world,
)

from agentrun.cluster.values import ContainerEnd, PodView
from agentrun.controller.plan.faults import LIST, reported, whose_fault
from agentrun.controller.world import Freshness, Gap
from agentrun.store.rows import RunState

NOBODY, INFRA, APP = "None", "Infra", "App"


@pytest.mark.parametrize(
    ("the_row", "the_pod", "fault", "cause"),
    [
        # A run that is not Active: nobody's, whatever the pod looks like (H62).
        (suspended_row(), ended_pod(0), NOBODY, "NotActive"),
        (suspended_row(), ended_pod(137, "OOMKilled"), NOBODY, "NotActive"),
        (terminal_row(), ended_pod(1), NOBODY, "NotActive"),
        (terminal_row(RunState.REVOKED), ended_pod(79), NOBODY, "NotActive"),
        # The fence has moved: a late end of the old pod.
        (row(fence=2), ended_pod(79), NOBODY, "Fenced"),
        (row(fence=2), ended_pod(137, "OOMKilled"), NOBODY, "Fenced"),
        # Never claimed, and taken away: nothing was done.
        (unclaimed_row(), pod(deleting=True), NOBODY, "PodDeleted"),
        (unclaimed_row(), ended_pod(137, deleting=True), NOBODY, "PodDeleted"),
        (unclaimed_row(), None, NOBODY, "PodDeleted"),
        # 78 is final, and no retry is consumed.
        (row(), ended_pod(78), NOBODY, "BadConfiguration"),
        (row(), ended_pod(78, disrupted=True), NOBODY, "BadConfiguration"),
        # The pod broke its own limit (H31).
        (row(), ended_pod(137, "OOMKilled"), APP, "OOMKilled"),
        (row(), ended_pod(137, "OOMKilled", disrupted=True), APP, "OOMKilled"),
        (row(), ended_pod(137, "Evicted", evicted=True), APP, "Evicted"),
        (row(), pod(phase="Failed", evicted=True), APP, "Evicted"),
        # Taken away by somebody else.
        (row(), ended_pod(137, "Evicted", evicted=True, disrupted=True), INFRA, "Disrupted"),
        (row(), ended_pod(137, disrupted=True), INFRA, "Disrupted"),
        (row(), ended_pod(1, disrupted=True), INFRA, "Disrupted"),
        (row(), ended_pod(137, deleting=True), INFRA, "PodDeleted"),
        (row(), ended_pod(143), INFRA, "Drained"),
        (row(), ended_pod(137, killed_by_user=True), INFRA, "KilledByUser"),
        (row(), None, INFRA, "PodGone"),
        (row(), pod(phase="Failed", runner_running=False), INFRA, "PodFailed"),
        (row(), pod(phase="Failed", runner_running=True), INFRA, "PodFailed"),
        # Any other end of the container is the program's.
        (row(), ended_pod(137), APP, "RunnerFailed"),
        (row(), ended_pod(1), APP, "RunnerFailed"),
        (row(), ended_pod(79), APP, "RunnerFailed"),
        (row(), ended_pod(0, "Completed"), APP, "RunnerFailed"),
        (row(), ended_pod(75), APP, "RunnerFailed"),
        (row(), ended_pod(139), APP, "RunnerFailed"),
        (unclaimed_row(), ended_pod(1), APP, "RunnerFailed"),
        # No end was seen.
        (expired_row(), pod(), INFRA, "LeaseExpired"),
    ],
)
def test_first_match_of_the_list(
    the_row: object, the_pod: PodView | None, fault: str, cause: str
) -> None:
    verdict = whose_fault(world(row=the_row), the_row, the_pod)  # type: ignore[arg-type]
    assert verdict is not None
    assert (verdict.end.fault, verdict.end.cause) == (fault, cause)


def test_a_running_pod_has_no_verdict() -> None:
    assert whose_fault(world(), row(), pod()) is None


def test_the_exit_code_is_kept() -> None:
    verdict = whose_fault(world(), row(), ended_pod(139))
    assert verdict is not None
    assert verdict.end.exit_code == 139


def test_only_78_is_fatal() -> None:
    fatal = [
        code
        for code in range(256)
        if (verdict := whose_fault(world(), row(), ended_pod(code))) and verdict.fatal
    ]
    assert fatal == [78]


def test_h73_out_of_memory_and_an_expired_lease_at_once_is_app() -> None:
    for disrupted in (False, True):
        late = expired_row()
        verdict = whose_fault(
            world(row=late), late, ended_pod(137, "OOMKilled", disrupted=disrupted)
        )
        assert verdict is not None
        assert (verdict.end.cause, verdict.end.fault) == ("OOMKilled", "App")


def test_h73_the_lease_is_the_last_rule() -> None:
    assert LIST[-1].__name__ == "_lease"


def test_h31_own_limit_is_app_and_somebody_elses_pressure_is_not() -> None:
    """With the container's word and without: an eviction can come before it."""
    for word in ({}, {"runner_end": None}):
        evicted = ended_pod(137, evicted=True, **word)
        own = whose_fault(world(), row(), evicted)
        pressure = whose_fault(world(), row(), replace(evicted, disrupted=True))
        assert own is not None
        assert pressure is not None
        assert (own.end.cause, own.end.fault) == ("Evicted", "App")
        assert (pressure.end.cause, pressure.end.fault) == ("Disrupted", "Infra")


def test_h32_the_runner_container_decides_and_not_the_pods_phase() -> None:
    """A sidecar that outlives the runner keeps the pod Running; the attempt is over all the same."""
    verdict = whose_fault(world(), row(), ended_pod(1, phase="Running"))
    assert verdict is not None
    assert verdict.end.cause == "RunnerFailed"


def test_h32_a_sidecars_crash_loop_is_not_the_runners_end() -> None:
    assert whose_fault(world(), row(), pod(waiting=("CrashLoopBackOff", "ops"))) is None


def test_h62_a_suspended_pods_exit_is_nobodys() -> None:
    verdict = whose_fault(world(), suspended_row(), ended_pod(0))
    assert verdict is not None
    assert verdict.end.fault == "None"


@pytest.mark.parametrize(
    ("freshness", "the_row", "fault"),
    [
        (OLD_ENOUGH, row(), APP),
        (OLD_ENOUGH, expired_row(), INFRA),  # it could not renew: for this pod the store was away
        (replace(OLD_ENOUGH, since_poll=None), row(), INFRA),
        (replace(OLD_ENOUGH, since_poll=21.0), row(), INFRA),
        (replace(OLD_ENOUGH, gaps=(Gap(21.0, 100.0),)), row(), INFRA),
        (replace(OLD_ENOUGH, gaps=(Gap(19.0, 100.0),)), row(), APP),
        (replace(OLD_ENOUGH, gaps=(Gap(21.0, 3000.0),)), row(), APP),
    ],
)
def test_75_is_infra_only_while_the_store_was_away(
    freshness: Freshness, the_row: object, fault: str
) -> None:
    verdict = whose_fault(world(freshness=freshness, row=the_row), the_row, ended_pod(75))  # type: ignore[arg-type]
    assert verdict is not None
    assert verdict.end.fault == fault


def test_a_container_without_a_message_says_nothing() -> None:
    assert reported(ContainerEnd(1, "Error")) == (None, "")
    assert reported(None) == (None, "")


@pytest.mark.parametrize(
    ("message", "reason", "text"),
    [
        ('{"reason": "CheckpointCorrupt", "message": "gap at 7"}', "CheckpointCorrupt", "gap at 7"),
        ('{"reason": "InvalidSpec", "message": "x"}\n', "InvalidSpec", "x"),
        ('{"reason": "Succeeded", "message": "x"}', None, "x"),  # no hint may claim an outcome
        ('{"reason": 7}', None, ""),
        ('{"reason": []}', None, ""),
        ('{"reason": {}, "message": [1]}', None, "[1]"),
        ('{"message": "a\\u0000b\\ud800c"}', None, "a b c"),  # refused by text columns
        ("[1]", None, ""),
        ("not json", None, ""),
        ("", None, ""),
    ],
)
def test_the_termination_line_is_a_hint(message: str, reason: str | None, text: str) -> None:
    assert reported(ContainerEnd(78, "Error", None, message)) == (reason, text)


@pytest.mark.parametrize(
    ("code", "message", "fatal", "fault"),
    [
        (78, '{"reason": "CheckpointCorrupt", "message": "gap"}', "CheckpointCorrupt", NOBODY),
        (78, "", "BadConfiguration", NOBODY),
        (1, '{"reason": "CheckpointCorrupt", "message": "gap"}', None, APP),
        (75, '{"reason": "CheckpointNewer", "message": "version 2"}', None, NOBODY),
        (75, '{"reason": "StoreRegressed", "message": "at 3"}', None, NOBODY),
        (75, '{"reason": "StoreUnavailable", "message": ""}', None, APP),
    ],
)
def test_hints_name_the_end_and_never_lower_the_charge(
    code: int, message: str, fatal: str | None, fault: str
) -> None:
    end = ContainerEnd(code, "Error", None, message)
    verdict = whose_fault(world(), row(), ended_pod(code, runner_end=end))
    assert verdict is not None
    assert (verdict.fatal, verdict.end.fault) == (fatal, fault)


def test_h29_a_record_of_a_newer_release_is_nobodys_fault() -> None:
    end = ContainerEnd(75, "Error", None, '{"reason": "CheckpointNewer", "message": "version 2"}')
    verdict = whose_fault(world(), row(), ended_pod(75, runner_end=end))
    assert verdict is not None
    assert (verdict.end.cause, verdict.end.fault) == ("CheckpointNewer", "None")
