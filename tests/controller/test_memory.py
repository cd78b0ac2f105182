"""What a process remembers: heartbeats of the store, secrets, troubles, requests, Events; failpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.fakes import Clock
from tests.controller.worlds import UID, row, suspended_row, terminal_row

from agentrun.api import Reason
from agentrun.controller.failpoints import NAMES, armed, nothing
from agentrun.controller.freshness import Heartbeat
from agentrun.controller.ledger import Ledger
from agentrun.controller.plan.takeover import lease_embargo
from agentrun.errors import UsageError
from agentrun.store.rows import Requested, RunState


class TestHeartbeat:
    """H15 and H70 from the side of the clock."""

    def test_before_the_first_poll_nothing_is_known(self) -> None:
        clock = Clock()
        beat = Heartbeat(clock)
        clock.seconds += 5
        seen = beat.freshness(synced=False)
        assert (seen.synced, seen.since_start, seen.since_poll, seen.gaps) == (False, 5, None, ())

    def test_an_outage_is_remembered_after_it_has_ended(self) -> None:
        clock = Clock()
        beat = Heartbeat(clock)
        beat.polled()
        clock.seconds += 100
        beat.polled()
        for _ in range(20):
            clock.seconds += 1
            beat.polled()
        gaps = beat.freshness(synced=True).gaps
        assert (gaps[0].length, gaps[0].ended_ago) == (100, 20)

    def test_until_it_matters_to_no_lease(self) -> None:
        clock = Clock()
        beat = Heartbeat(clock)
        beat.polled()
        clock.seconds += 100
        beat.polled()
        clock.seconds += 5000
        beat.polled()
        clock.seconds += 1
        beat.polled()
        assert [gap.length for gap in beat.freshness(synced=True).gaps] == [5000, 1]

    @given(
        st.lists(st.floats(0.1, 500), min_size=1, max_size=80), st.sampled_from([3, 60, 900, 3600])
    )
    def test_forgetting_never_shortens_an_embargo(self, steps: list[float], ttl: int) -> None:
        """The short list says the same as all gaps together would."""
        clock = Clock()
        beat = Heartbeat(clock)
        beat.polled()
        ends = []
        for step in steps:
            clock.seconds += step
            beat.polled()
            ends.append((step, clock.seconds))
        the_row = row(lease_ttl_ms=ttl * 1000)
        full = [ttl - (clock.seconds - end) for length, end in ends if length > ttl / 3]
        start = ttl - (clock.seconds - ends[0][1] + ends[0][0])
        assert lease_embargo(beat.freshness(synced=True), the_row) == pytest.approx(
            max(0.0, start, *full)
        )


class TestLedger:
    """Losing any of it costs a wait, never safety."""

    def test_a_secret_is_for_one_fence(self) -> None:
        ledger = Ledger(Clock())
        issued = ledger.issue(row(), "s", "x")
        assert ledger.issued(row()) is issued
        assert ledger.issued(row(fence=2)) is None

    def test_it_counts_the_secrets_of_a_fence(self) -> None:
        ledger = Ledger(Clock())
        ledger.issue(row(), "s", "x")
        assert ledger.issue(row(), "t", "y").count == 2
        assert ledger.issue(row(fence=2), "u", "z").count == 1

    def test_secrets_do_not_show(self) -> None:
        assert "hidden" not in repr(Ledger(Clock()).issue(row(), "hidden", "x"))

    def test_a_request_is_as_old_as_its_first_sight(self) -> None:
        clock = Clock()
        ledger = Ledger(clock)
        asked = row(requested=Requested.CANCEL, requested_reason="User")
        ledger.note(row())
        clock.seconds += 50
        ledger.note(asked)
        clock.seconds += 7
        ledger.note(asked)
        assert ledger.requested_age(asked) == 7

    def test_another_reason_is_another_request(self) -> None:
        clock = Clock()
        ledger = Ledger(clock)
        ledger.note(row(requested=Requested.SUSPEND, requested_reason="User"))
        clock.seconds += 50
        other = row(requested=Requested.SUSPEND, requested_reason="Budget")
        ledger.note(other)
        assert ledger.requested_age(other) == 0

    def test_troubles_wait_longer_each_time_and_end_with_a_success(self) -> None:
        clock = Clock()
        ledger = Ledger(clock)
        waits = []
        for _ in range(8):
            ledger.troubled(UID, Reason.QUOTA_EXCEEDED, "full")
            trouble = ledger.trouble(UID)
            assert trouble is not None
            waits.append(trouble.retry_in)
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
        ledger.untroubled(UID)
        assert ledger.trouble(UID) is None

    def test_a_trouble_stays_known_after_its_wait(self) -> None:
        clock = Clock()
        ledger = Ledger(clock)
        ledger.troubled(UID, Reason.QUOTA_EXCEEDED, "full")
        clock.seconds += 10
        trouble = ledger.trouble(UID)
        assert trouble is not None
        assert (trouble.reason, trouble.retry_in) == ("QuotaExceeded", 0)

    def test_repeated_events_are_one(self) -> None:
        clock = Clock()
        ledger = Ledger(clock)
        assert ledger.first_time(UID, "Failed", "x")
        clock.seconds += 1
        assert not ledger.first_time(UID, "Failed", "x")
        assert ledger.first_time(UID, "Failed", "y")
        clock.seconds += 600
        assert ledger.first_time(UID, "Failed", "x")

    def test_secrets_that_a_running_pod_does_not_use(self) -> None:
        ledger = Ledger(Clock())
        ledger.note(row())
        assert not ledger.stray_secrets(row(), shown=False)  # whose Secret the pod has is not known
        issued = ledger.issue(row(), "s", "x")
        issued.created = True
        assert not ledger.stray_secrets(row(), shown=False)  # there is only the one in use
        second = row(attempt=2, fence=2)
        ledger.issue(second, "s", "x").created = True
        assert ledger.stray_secrets(second, shown=False)  # the first attempt's
        ledger.purged(second)
        assert not ledger.stray_secrets(second, shown=False)

    def test_secrets_after_the_end(self) -> None:
        ledger = Ledger(Clock())
        assert ledger.stray_secrets(terminal_row(), shown=False)
        assert not ledger.stray_secrets(terminal_row(), shown=True)
        assert not ledger.stray_secrets(suspended_row(), shown=False)
        ledger.note(row())
        assert ledger.stray_secrets(suspended_row(), shown=False)
        never = terminal_row(RunState.CANCELLED, attempt=0)
        assert not Ledger(Clock()).stray_secrets(never, shown=False)

    def test_namespaces_are_asked_for_once(self) -> None:
        ledger = Ledger(Clock())
        assert ledger.namespace_uid("agents") is None
        ledger.remember_namespace("agents", "u")
        assert ledger.namespace_uid("agents") == "u"
        ledger.recheck_namespaces()
        assert ledger.namespace_uid("agents") is None

    def test_a_run_in_a_namespace_that_was_made_anew_is_none_of_the_old_ones(self) -> None:
        """It was not started until the next resync: its namespace's name counted as going away."""
        ledger = Ledger(Clock())
        ledger.remember_namespace("agents", "old")
        ledger.namespace_is_terminating("agents", ["run-in-it"])
        assert ledger.terminating("run-in-it")
        assert not ledger.terminating("run-in-another-of-that-name")
        assert ledger.namespace_uid("agents") is None
        ledger.recheck_namespaces()
        assert not ledger.terminating("run-in-it")


class TestFailpoints:
    """Named points at which the operator kills itself, once."""

    def test_unset_is_nothing(self) -> None:
        assert armed({}) is nothing

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_every_name_fires(self, name: str) -> None:
        fired: list[str] = []
        reach = armed({"AGENTRUN_OPERATOR_FAILPOINT": name}, lambda: fired.append(name))
        for other in sorted(NAMES):
            reach(other)
        assert fired == [name]

    def test_the_nth_time(self) -> None:
        fired: list[int] = []
        reach = armed({"AGENTRUN_OPERATOR_FAILPOINT": "after-mint:3"}, lambda: fired.append(1))
        for _ in range(2):
            reach("after-mint")
        assert not fired
        for _ in range(3):
            reach("after-mint")
        assert fired == [1]

    def test_a_marker_makes_it_once_whatever_restarts(self, tmp_path: Path) -> None:
        fired: list[int] = []
        environ = {
            "AGENTRUN_OPERATOR_FAILPOINT": "after-secret",
            "AGENTRUN_FAILPOINT_DIR": str(tmp_path / "points"),
        }
        for _ in range(3):
            armed(environ, lambda: fired.append(1))("after-secret")
        assert fired == [1]

    @pytest.mark.parametrize("text", ["after-lunch", "after-mint:x", ":2"])
    def test_a_name_that_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="after-mint"):
            armed({"AGENTRUN_OPERATOR_FAILPOINT": text})
