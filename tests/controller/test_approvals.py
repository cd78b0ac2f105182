"""Questions to people (H13, H26, H37, H38, H42, H71, H72)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.controller.worlds import (
    KEY,
    NAME,
    SETTINGS,
    acts,
    ago,
    approval,
    first,
    kinds,
    pod,
    request,
    row,
    run,
    spec,
    suspended_row,
    terminal_row,
    world,
)

from agentrun.api import ApprovalState, Decision
from agentrun.api.names import approval_name
from agentrun.controller.actions import (
    CreateApproval,
    CreatePod,
    Decide,
    DeleteApproval,
    Finish,
    MarkApproval,
)
from agentrun.controller.approval_object import approval_object, asks_the_same, content_of
from agentrun.controller.plan.plan import plan
from agentrun.controller.status import project
from agentrun.run.exact import canonical_json
from agentrun.store.rows import Requested, RunState

APPROVE, DENY = Decision.APPROVE, Decision.DENY


def asking(*requests: Any, objects: Any = (), **more: Any) -> Any:
    """A suspended run with these questions open and these objects in the cluster."""
    the_row = more.pop("row", None) or suspended_row(pending_approvals=requests)
    return world(row=the_row, approvals=tuple(objects), pods=(), **more)


def decided(asked: Any = None, decision: Decision = APPROVE, **more: Any) -> Any:
    """A question that alice has decided."""
    return approval(asked, decision=decision, decided_by="alice", **more)


class TestObjects:
    """One object per open question, and it is the one that the row knows."""

    def test_made_for_a_new_question(self) -> None:
        asked = request(object_uid=None)
        assert acts(asking(asked))[0] == CreateApproval(asked, None)

    def test_made_while_siblings_are_still_at_work(self) -> None:
        asked = request(object_uid=None)
        at = asking(asked, row=row(pending_approvals=(asked,)))
        assert "CreateApproval" in kinds(replace(at, pods=(pod(),)))

    def test_left_alone_when_it_is_right(self) -> None:
        assert acts(asking(request(), objects=[approval()])) == ()

    def test_made_again_when_it_was_deleted(self) -> None:
        """Deleting a pending Approval never approves."""
        asked = request()
        assert acts(asking(asked)) == (CreateApproval(asked, "approval-1"),)

    def test_waited_for_while_it_is_being_deleted(self) -> None:
        dying = approval()
        meta = dying.metadata.model_copy(update={"deletion_timestamp": ago(seconds=1)})
        assert acts(asking(request(), objects=[dying.model_copy(update={"metadata": meta})])) == ()

    @pytest.mark.parametrize("known", [None, "approval-1"])
    def test_h71_an_unknown_uid_is_deleted_and_made_again(self, known: str | None) -> None:
        asked = request(object_uid=known)
        at = asking(asked, objects=[approval(asked, uid="unknown")])
        delete, create = acts(at)
        assert delete == DeleteApproval(
            KEY.__class__(KEY.namespace, approval_name(NAME, asked.id)), "unknown"
        )
        assert create == CreateApproval(asked, known)

    def test_h37_created_already_decided_by_somebody_else(self) -> None:
        forged = decided(request(), uid="forged")
        assert kinds(asking(request(), objects=[forged])) == ("DeleteApproval", "CreateApproval")

    def test_h38_an_undecided_object_that_shows_something_else_is_made_again(self) -> None:
        asked = request()
        content = approval(asked).spec.content.model_copy(update={"arguments_json": '{"x":1}'})
        at = asking(asked, objects=[approval(asked, content=content)])
        assert kinds(at) == ("DeleteApproval", "CreateApproval")

    @pytest.mark.parametrize("state", [s for s in ApprovalState if s is not ApprovalState.PENDING])
    def test_an_open_question_that_somebody_marked_closed_can_be_decided_again(
        self, state: ApprovalState
    ) -> None:
        """The API server refuses decisions on a closed one, so the run would wait for ever."""
        shut = approval(state=state)
        assert acts(asking(request(), objects=[shut])) == (
            MarkApproval(shut, ApprovalState.PENDING),
        )

    def test_ten_questions_have_ten_objects(self) -> None:
        asked = tuple(request(n, object_uid=None) for n in range(1, 11))
        made = [act for act in acts(asking(*asked)) if isinstance(act, CreateApproval)]
        assert [act.request.id for act in made] == [each.id for each in asked]

    def test_closed_when_the_run_is_over(self) -> None:
        at = world(row=terminal_row(), approvals=(approval(), decided(request(2))), pods=())
        states = [act.state for act in acts(at) if isinstance(act, MarkApproval)]
        assert states == [ApprovalState.CLOSED, ApprovalState.CLOSED]

    def test_marked_when_a_crash_came_between_decision_and_mark(self) -> None:
        at = world(row=row(), approvals=(decided(decision=DENY),))
        (mark,) = acts(at)
        assert isinstance(mark, MarkApproval)
        assert (mark.state, mark.consumed) == (ApprovalState.DENIED, True)

    def test_another_objects_approval_of_the_same_name_is_not_touched(self) -> None:
        other = approval(request(7))
        ref = other.spec.run_ref.model_copy(update={"uid": "an-older-object"})
        other = other.model_copy(update={"spec": other.spec.model_copy(update={"run_ref": ref})})
        assert acts(world(approvals=(other,))) == ()


class TestConsuming:
    """A decision is taken up once, in Suspended, by the object that the row knows."""

    def test_approved_and_nothing_else_pending_mints(self) -> None:
        asked = request()
        act, create, mark = acts(asking(asked, objects=[decided(asked)]))[:3]
        assert act == Decide(asked, "approval-1", "Approve", "alice", "", mint=True)
        assert create == CreatePod(None)
        assert isinstance(mark, MarkApproval)
        assert (mark.state, mark.consumed) == (ApprovalState.APPROVED, True)

    def test_one_that_somebody_marked_expired_before_its_time_is_taken_up(self) -> None:
        asked = request()
        at = asking(asked, objects=[decided(asked, state=ApprovalState.EXPIRED)])
        assert first(at) == Decide(asked, "approval-1", "Approve", "alice", "", mint=True)

    def test_denied_mints_too_because_the_model_sees_it(self) -> None:
        asked = request()
        at = asking(asked, objects=[decided(asked, DENY, decision_reason="not now")])
        act = first(at)
        assert act == Decide(asked, "approval-1", "Deny", "alice", "not now", mint=True)

    def test_h12_one_of_two_starts_nothing(self) -> None:
        one, two = request(1), request(2)
        at = asking(one, two, objects=[approval(one), decided(two)])
        act = first(at)
        assert isinstance(act, Decide)
        assert (act.request.id, act.mint) == (two.id, False)
        assert "CreatePod" not in kinds(at)

    def test_answers_reach_their_own_call_in_any_order(self) -> None:
        one, two = request(1), request(2)
        at = asking(one, two, objects=[decided(two, DENY), decided(one, APPROVE)])
        act = first(at)
        assert isinstance(act, Decide)
        assert (act.request.id, act.decision, act.object_uid) == (one.id, "Approve", "approval-1")

    @pytest.mark.parametrize("the_row", [row, terminal_row])
    def test_h13_never_while_the_run_is_not_suspended(self, the_row: Any) -> None:
        asked = request()
        busy = the_row(pending_approvals=(asked,))
        at = replace(asking(asked, objects=[decided(asked)], row=busy), pods=(pod(),))
        assert "Decide" not in kinds(at)

    def test_h26_suspended_by_its_user_the_decision_is_recorded_and_starts_nothing(self) -> None:
        asked = request()
        held = suspended_row(
            requested=Requested.SUSPEND, requested_reason="User", pending_approvals=(asked,)
        )
        at = asking(asked, objects=[decided(asked)], row=held, spec=spec(suspend=True))
        act = first(at)
        assert isinstance(act, Decide)
        assert act.mint is False
        assert "CreatePod" not in kinds(at)

    def test_a_cancelled_run_consumes_nothing(self) -> None:
        asked = request()
        held = suspended_row(
            requested=Requested.CANCEL, requested_reason="User", pending_approvals=(asked,)
        )
        at = asking(asked, objects=[decided(asked)], row=held, spec=spec(cancel=True))
        assert kinds(at) == ("Finish",)

    def test_a_spent_budget_lets_it_be_recorded_only(self) -> None:
        from agentrun.controller.plan.budgets import budgets_of
        from agentrun.store.rows import TotalsRow

        what, asked = spec(limits={"turns": 3}), request()
        held = suspended_row(
            pending_approvals=(asked,), totals=TotalsRow(turns=3), budgets=budgets_of(what)
        )
        act = first(asking(asked, objects=[decided(asked)], row=held, spec=what))
        assert isinstance(act, Decide)
        assert act.mint is False

    def test_the_unknown_object_of_a_decision_decides_nothing(self) -> None:
        asked = request()
        at = asking(asked, objects=[decided(asked, uid="forged")])
        assert "Decide" not in kinds(at)

    def test_h38_decided_on_other_content_is_stale(self) -> None:
        asked = request()
        shown = approval(asked).spec.content.model_copy(update={"arguments_json": '{"all":true}'})
        at = asking(asked, objects=[decided(asked, content=shown)])
        act, _, mark = acts(at)[:3]
        assert isinstance(act, Decide)
        assert act.decision == "Stale"
        assert isinstance(mark, MarkApproval)
        assert (mark.state, mark.consumed) == (ApprovalState.STALE, False)

    @pytest.mark.parametrize(
        "forged",
        [{"content_hash": "f" * 64}, {"boundary": "main/1/9/9"}, {"scope": "Plan"}],
    )
    def test_h38_anything_that_differs_is_stale(self, forged: dict[str, Any]) -> None:
        asked = request()
        act = first(asking(asked, objects=[decided(asked, **forged)]))
        assert isinstance(act, Decide)
        assert act.decision == "Stale"

    def test_a_decision_that_this_release_cannot_record_waits(self) -> None:
        asked = request()
        assert acts(asking(asked, objects=[decided(asked, Decision.ANSWER)])) == ()


class TestIdentity:
    """H42: anyone is anyone until the API server refuses a forged decision."""

    def test_decisions_wait(self) -> None:
        asked = request()
        at = asking(asked, objects=[decided(asked)], identity_verified=False)
        assert acts(at) == ()
        status = project(at)
        assert status is not None
        assert (status.phase, status.reason) == ("Suspended", "ApprovalIdentityUnverified")

    def test_without_a_decision_it_is_an_ordinary_wait(self) -> None:
        status = project(asking(request(), objects=[approval()], identity_verified=False))
        assert status is not None
        assert status.reason == "ApprovalPending"

    def test_unless_configured_otherwise(self) -> None:
        asked = request()
        lax = replace(SETTINGS, accept_unverified_decisions=True)
        at = asking(asked, objects=[decided(asked)], identity_verified=False, settings=lax)
        assert isinstance(first(at), Decide)


class TestExpiry:
    """Closed first, applied afterwards (H40, H72)."""

    LATE = request(requested_at=ago(seconds=61))

    def waits(self, on_timeout: str = "Deny", **changes: Any) -> Any:
        what = spec(approvals={"expiresAfterSeconds": 60, "onTimeout": on_timeout})
        return asking(self.LATE, objects=[approval(self.LATE, **changes)], spec=what)

    def test_not_before_its_time(self) -> None:
        what = spec(approvals={"expiresAfterSeconds": 62})
        made = plan(asking(self.LATE, objects=[approval(self.LATE)], spec=what))
        assert made.actions == ()
        assert made.requeue_after == pytest.approx(1, abs=0.1)

    def test_h72_the_object_is_closed_first(self) -> None:
        act = first(self.waits("Approve"))
        assert isinstance(act, MarkApproval)
        assert act.state is ApprovalState.EXPIRED
        assert kinds(self.waits("Approve")) == ("MarkApproval",)

    @pytest.mark.parametrize(("on_timeout", "decision"), [("Deny", "Deny"), ("Approve", "Approve")])
    def test_then_it_counts_as_configured(self, on_timeout: str, decision: str) -> None:
        act = first(self.waits(on_timeout, state=ApprovalState.EXPIRED))
        assert isinstance(act, Decide)
        assert (act.decision, act.decided_by) == (decision, "")

    def test_or_fails_the_run(self) -> None:
        act = first(self.waits("Fail", state=ApprovalState.EXPIRED))
        assert isinstance(act, Finish)
        assert (act.state, act.reason) == (RunState.FAILED, "ApprovalExpired")

    def test_h40_a_decision_that_is_there_before_it_was_closed_wins(self) -> None:
        act = first(self.waits("Approve", decision=DENY, decided_by="alice"))
        assert isinstance(act, Decide)
        assert (act.decision, act.decided_by) == ("Deny", "alice")

    def test_h40_a_deny_always_wins(self) -> None:
        closed = self.waits(
            "Approve", decision=DENY, decided_by="alice", state=ApprovalState.EXPIRED
        )
        act = first(closed)
        assert isinstance(act, Decide)
        assert act.decision == "Deny"

    def test_an_approval_after_it_was_closed_does_not_count(self) -> None:
        late = self.waits("Deny", decision=APPROVE, decided_by="bob", state=ApprovalState.EXPIRED)
        act = first(late)
        assert isinstance(act, Decide)
        assert act.decision == "Deny"

    def test_marked_expired_once_applied(self) -> None:
        marks = [
            act
            for act in acts(self.waits("Deny", state=ApprovalState.EXPIRED))
            if isinstance(act, MarkApproval)
        ]
        assert [mark.state for mark in marks] == [ApprovalState.EXPIRED]


class TestContent:
    """The object shows what the row asks, and nothing else."""

    def test_it_is_undecided_and_owned(self) -> None:
        made = approval_object(run(), spec(), request())
        assert made.spec.decision is None
        assert made.spec.decided_by == ""
        assert made.metadata.owner_references[0].uid == run().metadata.uid
        assert asks_the_same(made, request())

    def test_long_arguments_are_cut_and_said_to_be(self) -> None:
        asked = request(content=canonical_json({"argumentsJSON": "x" * 300_000}))
        shown = content_of(asked)
        assert len(shown.arguments_json) == 262_144
        assert shown.truncated
        assert asks_the_same(approval(asked), asked)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\xff\x00[",
            b"{",
            b"[" * 100_000,
            b'{"agent":"no agent!"}',
            b'{"agent":7,"task":[]}',
        ],
    )
    def test_forged_content_becomes_an_object_all_the_same(self, content: bytes) -> None:
        asked = request(content=content)
        assert asks_the_same(approval(asked), asked)

    def test_a_lone_surrogate_does_not_stop_it(self) -> None:
        shown = content_of(request(content=canonical_json({"text": "a\ud800b"})))
        assert shown.text == "a\ufffdb"

    def test_separation_of_duties_names_who_started_the_run(self) -> None:
        what = spec(requestedBy="alice", approvals={"separationOfDuties": True})
        assert approval_object(run(what), what, request()).spec.policy.not_user == "alice"

    def test_its_expiry_is_shown(self) -> None:
        what = spec(approvals={"expiresAfterSeconds": 60})
        made = approval_object(run(what), what, request())
        assert made.spec.expires_at is not None
        assert made.spec.requested_at is not None
        assert (made.spec.expires_at - made.spec.requested_at).total_seconds() == 60
