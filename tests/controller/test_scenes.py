"""Scenes with users, quotas, squatters, outages and deletions, over fakes with real semantics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.controller.simulation import QUICK, OperatorSim, Sim, pod_of
from tests.controller.worlds import KEY, NAME, OTHER_UID, PRICES, UID, pod, run, spec

from agentrun.api import AgentRunStatus, Phase, Pricing
from agentrun.api.names import pod_name
from agentrun.api.validation import AdminPolicy
from agentrun.cluster.values import ObjectKey
from agentrun.controller.cache import Cache, object_key
from agentrun.errors import Forbidden, Rejected
from agentrun.store.port import NewRun
from agentrun.store.rows import Budgets, Requested, RunState


def reach_running(sim: Sim) -> None:
    """Until the first pod has claimed and committed once."""
    for _ in range(20):
        for operator in sim.operators:
            operator.deliver()
            operator.reconcile()
        for each in sim.live_pods():
            sim.advance(each)
        if UID in sim.store.rows and sim.row.first_commit_at is not None:
            break
    for operator in sim.operators:
        operator.deliver()
        operator.reconcile()
    assert sim.shown.phase == "Running"


class TestUsers:
    """Suspend, resume, cancel, and edits of the spec."""

    def test_suspend_and_resume(self) -> None:
        sim = Sim(scripts=(("commit", "commit", "commit"),))
        reach_running(sim)
        sim.change(suspend=True)
        sim.settle()
        assert (sim.shown.phase, sim.shown.reason) == ("Suspended", "SuspendedByUser")
        assert not sim.cluster.pods
        sim.change(suspend=False)
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 2)
        assert (sim.row.app_faults, sim.row.infra_faults) == (0, 0)

    def test_suspended_from_the_start(self) -> None:
        sim = Sim(what={"suspend": True})
        sim.settle()
        assert (sim.shown.phase, sim.shown.reason) == ("Suspended", "SuspendedByUser")
        assert not sim.cluster.created
        sim.change(suspend=False)
        sim.settle()
        assert sim.row.state is RunState.SUCCEEDED

    def test_a_cancelled_run_ends_as_cancelled_by_its_user(self) -> None:
        sim = Sim(scripts=(("commit",) * 20,))
        reach_running(sim)
        sim.change(cancel=True)
        sim.settle()
        assert (sim.row.state, sim.row.reason) == (RunState.CANCELLED, "CancelledByUser")

    def test_h27_a_cancel_does_not_wait_for_a_hung_tool(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        sim.change(cancel=True)
        sim.settle()
        assert (sim.row.state, sim.row.reason) == (RunState.CANCELLED, "CancelledByUser")
        assert sim.row.fence == sim.row.attempt + 1
        assert not sim.live_pods()

    def test_h61_a_late_commit_of_a_cancelled_pod_is_refused(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        late = pod_of(sim)
        sim.change(cancel=True)
        sim.settle()
        assert not sim.store.append(UID, late.fence or 0, late.uid, state=RunState.SUCCEEDED)
        assert sim.row.state is RunState.CANCELLED

    def test_cancel_taken_back_is_still_a_cancel(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        sim.change(cancel=True)
        sim.operators[0].deliver()
        sim.operators[0].reconcile()
        sim.change(cancel=False)
        sim.settle()
        assert sim.row.state is RunState.CANCELLED

    def test_h63_two_operators_with_specs_of_different_age(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),), operators_count=2)
        reach_running(sim)
        fresh, old = sim.operators
        sim.change(suspend=True)
        fresh.deliver()
        fresh.reconcile()
        for _ in range(5):
            old.reconcile()
        assert (sim.row.requested, sim.row.generation) == (Requested.SUSPEND, 2)
        sim.settle()
        assert sim.row.state is RunState.SUSPENDED

    def test_h35_a_spent_budget_is_raised(self) -> None:
        sim = Sim(what={"limits": {"turns": 2}}, scripts=(("commit", "finish"),))
        reach_running(sim)
        owner = pod_of(sim)
        sim.store.append(
            UID, owner.fence or 0, owner.uid, state=RunState.SUSPENDED, reason="BudgetExceeded"
        )
        sim.cluster.end_pod(owner.key, 0)
        sim.settle()
        assert (sim.shown.phase, sim.shown.reason) == ("Suspended", "BudgetExceeded")
        assert len(sim.store.mints) == 1
        sim.what = {"limits": {"turns": 9}}
        sim.change()
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 2)

    def test_h34_the_provider_is_away_and_comes_back(self) -> None:
        sim = Sim(scripts=(("commit", "finish"),))
        reach_running(sim)
        owner = pod_of(sim)
        sim.store.append(
            UID,
            owner.fence or 0,
            owner.uid,
            state=RunState.SUSPENDED,
            reason="ModelUnavailable",
            wait=120.0,
        )
        sim.cluster.end_pod(owner.key, 0)
        sim.operators[0].deliver()
        sim.operators[0].reconcile()
        assert (sim.shown.phase, sim.shown.reason) == ("Suspended", "ModelUnavailable")
        assert not sim.live_pods()
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 2)
        assert (sim.row.app_faults, sim.row.infra_faults) == (0, 0)


class TestDeletion:
    """H24 and re-creation."""

    def test_deleted_while_running(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        late = pod_of(sim)
        sim.cluster.remove(KEY)
        for _ in range(3):
            sim.operators[0].deliver()
            sim.operators[0].reconcile()
        sim.cluster.collect()
        assert sim.row.state is RunState.REVOKED
        assert not sim.cluster.pods
        assert not sim.store.append(UID, late.fence or 0, late.uid)
        assert not sim.operators[0].cache.tombs(KEY)
        assert len(sim.cluster.created) == 1

    def test_deletion_that_waits_for_its_dependents_revokes_and_creates_nothing(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        current = sim.cluster.runs[KEY]
        meta = current.metadata.model_copy(update={"deletion_timestamp": sim.clock.wall()})
        sim.cluster.runs[KEY] = current.model_copy(update={"metadata": meta})
        sim.cluster._log(sim.cluster.runs[KEY])
        statuses = sim.cluster.writes.count("patch_run_status")
        for _ in range(5):
            sim.operators[0].deliver()
            sim.operators[0].reconcile()
            for each in sim.live_pods():
                sim.advance(each)
        assert sim.row.state is RunState.REVOKED
        assert len(sim.cluster.created) == 1
        assert sim.cluster.writes.count("patch_run_status") == statuses + 1
        assert sim.shown.phase is Phase.CANCELLED

    def test_recreated_under_its_name_shares_nothing(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        sim.cluster.remove(KEY)
        sim.cluster.apply(run(uid=OTHER_UID))
        sim.operators[0].deliver()
        sim.operators[0].reconcile()
        old, new = sim.store.facts(UID), sim.store.facts(OTHER_UID)
        assert old is not None
        assert new is not None
        assert old.state is RunState.REVOKED
        assert (new.state, new.attempt, new.app_faults) == (RunState.ACTIVE, 1, 0)
        assert pod_name(NAME, UID, 1) != pod_name(NAME, OTHER_UID, 1)
        assert [uid for uid, _, _ in sim.cluster.created] == [UID, OTHER_UID]

    def test_h24_a_terminating_namespace_is_noticed_when_it_refuses(self) -> None:
        sim = Sim()
        sim.cluster.terminating.add("agents")
        sim.operators[0].reconcile()
        assert sim.row.state is RunState.REVOKED
        assert not sim.cluster.created

    def test_ttl_zero_with_an_immediate_end_shows_the_result_first(self) -> None:
        sim = Sim(what={"ttlSecondsAfterFinished": 0})
        for _ in range(12):
            sim.operators[0].deliver()
            sim.operators[0].reconcile()
            for each in sim.live_pods():
                sim.advance(each)
        assert KEY not in sim.cluster.runs
        assert sim.cluster.writes.count("delete_run") == 1
        shown = [
            change.item.status
            for change in sim.cluster.changes_log
            if change.kind == "AgentRun" and change.item.status is not None  # type: ignore[union-attr]
        ]
        assert shown[-1].phase == "Succeeded"  # type: ignore[union-attr]


class TestCreation:
    """What the API server refuses consumes no attempt."""

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (Forbidden("pods is forbidden: exceeded quota: small"), "QuotaExceeded"),
            (Forbidden("pods is forbidden: violates PodSecurity"), "ContainerConfig"),
            (Rejected("Pod is invalid: spec.priorityClassName"), "ContainerConfig"),
        ],
    )
    def test_refused_pods(self, error: Exception, reason: str) -> None:
        sim = Sim()
        sim.cluster.refuse_pods = error
        for _ in range(6):
            sim.operators[0].reconcile()
            sim.pass_time(sim.operators[0].wait or 1.0)
        assert (sim.shown.phase, sim.shown.reason) == ("Pending", reason)
        assert len(sim.store.mints) == 1
        assert len(sim.cluster.secrets) == 1
        sim.cluster.refuse_pods = None
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 1)

    def test_refused_until_the_start_deadline(self) -> None:
        sim = Sim(what={"limits": {"startDeadlineSeconds": 60}})
        sim.cluster.refuse_pods = Forbidden("exceeded quota: small")
        sim.settle()
        assert (sim.row.state, sim.row.reason) == (RunState.FAILED, "StartDeadlineExceeded")
        assert "exceeded quota" in sim.row.message

    def test_h22_a_name_that_somebody_else_has(self) -> None:
        sim = Sim()
        taken = pod(owner_uid=None, run_uid=None, fence=None, installation=None, uid="theirs")
        sim.cluster.pods[taken.key] = taken
        for _ in range(4):
            sim.operators[0].deliver()
            sim.operators[0].reconcile()
            sim.pass_time(sim.operators[0].wait or 1.0)
        assert (sim.shown.phase, sim.shown.reason) == ("Pending", "PodNameConflict")
        assert sim.cluster.pods[taken.key] == taken
        assert "delete_pod" not in sim.cluster.writes
        sim.cluster.vanish(taken.key)
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 1)

    def test_h50_a_squatted_secret_name_is_left_to_the_squatter(self) -> None:
        sim = Sim()
        sim.cluster.squatted = {f"{pod_name(NAME, UID, 1)}-{number:08x}" for number in (4,)}
        sim.settle()
        assert sim.row.state is RunState.SUCCEEDED
        assert not sim.cluster.squatted & {key.name for key in sim.cluster.secrets}
        assert sim.cluster.calls.count("create_secret") == 2

    def test_h18_every_attempts_secret_is_random(self) -> None:
        sim = Sim(scripts=(("commit", "drain"), ("drain",)))
        known: set[str] = set()
        real = sim.cluster.create_secret

        async def spy(secret: Any) -> Any:
            known.add(secret.secret)
            return await real(secret)

        sim.cluster.create_secret = spy  # type: ignore[method-assign]
        sim.operators = [OperatorSim(sim, sim.settings)]
        sim.settle()
        assert len(known) == 3

    def test_a_users_secret_that_is_missing(self) -> None:
        model = {"name": "m", "apiKeySecretRef": {"name": "anthropic", "key": "api-key"}}
        sim = Sim(what={"model": model})
        sim.cluster.user_secrets = set()
        sim.operators[0].reconcile()
        assert (sim.shown.phase, sim.shown.reason) == ("Pending", "ContainerConfig")
        assert "anthropic" in sim.shown.message
        sim.cluster.user_secrets = {(ObjectKey("agents", "anthropic"), "api-key")}
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 1)

    def test_a_prompt_from_a_config_map_that_comes_later_and_is_recorded_once(self) -> None:
        source = {"configMapKeyRef": {"name": "p", "key": "prompt"}}
        sim = Sim(what={"prompt": None, "promptFrom": source})
        sim.operators[0].reconcile()
        assert (sim.shown.phase, sim.shown.reason) == ("Pending", "ContainerConfig")
        assert "ConfigMap (agents/p)" in sim.shown.message
        assert UID not in sim.store.rows
        sim.cluster.configs[(ObjectKey("agents", "p"), "prompt")] = "Look."
        sim.settle()
        assert sim.row.state is RunState.SUCCEEDED
        assert b"Look." in sim.row.spec

    def test_a_pod_that_may_not_be_deleted_keeps_no_later_run_of_that_name_waiting(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)

        async def refuse(*_: Any) -> None:
            raise Forbidden("pods are protected by a policy")

        sim.cluster.delete_pod = refuse  # type: ignore[method-assign]
        sim.cluster.remove(KEY)
        sim.cluster.apply(run(uid=OTHER_UID))
        for _ in range(4):
            sim.operators[0].deliver()
            sim.operators[0].reconcile()
        assert sim.store.rows[UID].state is RunState.REVOKED
        assert OTHER_UID in {uid for uid, _, _ in sim.cluster.created}

    def test_cancelled_while_it_waits_for_its_prompt(self) -> None:
        source = {"configMapKeyRef": {"name": "p", "key": "prompt"}}
        sim = Sim(what={"prompt": None, "promptFrom": source})
        sim.operators[0].reconcile()
        sim.change(cancel=True)
        sim.operators[0].deliver()
        sim.operators[0].reconcile()
        assert (sim.shown.phase, sim.shown.reason) == ("Cancelled", "CancelledByUser")

    def test_a_run_that_waits_for_people_says_so_although_its_approval_is_refused(self) -> None:
        """A quota on objects, or a policy: its status once said Running for ever."""
        sim = Sim(scripts=(("ask",),))

        async def refuse(_approval: Any) -> Any:
            raise Forbidden("exceeded quota: objects", attempted="create approvals")

        sim.cluster.create_approval = refuse  # type: ignore[method-assign]
        for _ in range(10):
            sim.operators[0].deliver()
            sim.operators[0].reconcile()
            for each in sim.live_pods():
                sim.advance(each)
        assert (sim.shown.phase, sim.shown.reason) == ("Suspended", "ApprovalPending")
        notes = {event.note for event in sim.cluster.events if event.reason == "Refused"}
        assert notes == {"create approvals: exceeded quota: objects"}

    def test_h36_a_cost_budget_without_a_price(self) -> None:
        sim = Sim(what={"limits": {"costUSD": "5"}})
        sim.settle()
        assert (sim.shown.phase, sim.shown.reason) == ("Failed", "InvalidSpec")
        assert "costUSD" in sim.shown.message
        assert UID not in sim.store.rows
        sim.change(limits={})
        sim.settle()
        assert sim.row.state is RunState.SUCCEEDED

    def test_h36_a_cost_budget_that_comes_later_stops_a_run_without_a_price(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        sim.change(limits={"costUSD": "5"})
        sim.operators[0].deliver()
        sim.operators[0].reconcile()
        assert sim.row.budgets.cost == 0, "the runner stops before its next model call"
        sim.change(limits={})
        sim.operators[0].deliver()
        sim.operators[0].reconcile()
        assert sim.row.budgets.cost is None

    def test_h36_the_operators_price_is_a_price(self) -> None:
        table = {"claude-sonnet-4-6": Pricing.model_validate(PRICES)}
        policy = AdminPolicy(pricing=table)
        sim = Sim(what={"limits": {"costUSD": "5"}}, settings=replace(QUICK, policy=policy))
        opened: list[NewRun] = []
        real = sim.store.open_run

        async def spy(new: NewRun) -> Any:
            opened.append(new)
            return await real(new)

        sim.store.open_run = spy  # type: ignore[method-assign]
        sim.operators[0].reconcile()
        assert opened[0].budgets == sim.row.budgets == Budgets(cost=5 * 10**12)


class TestNodesAndStore:
    """Lost nodes, operators that start, a store that goes away."""

    def test_a_frozen_node_is_taken_over_and_avoided(self) -> None:
        sim = Sim(scripts=(("commit", "freeze"),))
        sim.settle()
        assert (sim.row.state, sim.row.attempt, sim.row.infra_faults) == (RunState.SUCCEEDED, 2, 1)
        first, second = (uid for _, _, uid in sim.cluster.created)
        assert (sim.cluster.avoided[first], sim.cluster.avoided[second]) == (None, "n1")

    def test_wait_for_pod_waits(self) -> None:
        sim = Sim(scripts=(("commit", "freeze"),), what={"lease": {"onUnreachable": "WaitForPod"}})
        sim.settle(people=False)
        sim.pass_time(3600)
        sim.operators[0].reconcile()
        assert (sim.row.state, sim.row.attempt) == (RunState.ACTIVE, 1)
        assert "waiting for the pod" in sim.shown.message
        sim.cluster.vanish(pod_of(sim).key)
        sim.settle()
        assert (sim.row.state, sim.row.attempt, sim.row.infra_faults) == (RunState.SUCCEEDED, 2, 1)

    def test_h14_an_operator_that_starts_with_runs_before_pods_fences_nobody(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        operator = sim.operators[0]
        operator.cache = Cache()
        operator.observer.context = replace(operator.observer.context, cache=operator.cache)
        operator.start()
        for each in list(operator.cache.pods):
            operator.cache.remove_pod(each.key, each.uid)
        operator.reconcile()
        assert (sim.row.fence, len(sim.store.mints)) == (1, 1)

    def test_h15_a_store_that_was_away_longer_than_the_lease_costs_nobody_an_attempt(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        sim.store.up = False
        sim.clock.seconds += 600  # nobody renews, nobody polls
        sim.operators[0].reconcile()
        assert sim.shown.phase == "Running"
        assert [c.reason for c in sim.shown.conditions if c.type == "CheckpointHealthy"] == [
            "StoreUnavailable"
        ]
        sim.store.up = True
        for operator in sim.operators:
            operator.heartbeat.polled()
        assert sim.row.lease_expired
        sim.operators[0].reconcile()
        assert len(sim.store.mints) == 1
        for _ in range(60):
            sim.pass_time(5)  # the pod renews within its TTL
            sim.operators[0].reconcile()
        assert (len(sim.store.mints), sim.row.fence) == (1, 1)

    def test_h70_an_operator_restarted_right_after_an_outage_takes_nobodys_lease(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        sim.clock.seconds += 600
        sim.operators[0].start()
        assert sim.row.lease_expired
        for _ in range(3):
            sim.operators[0].reconcile()
        assert len(sim.store.mints) == 1

    def test_but_a_pod_that_stays_dead_is_taken_over_one_lease_later(self) -> None:
        sim = Sim(scripts=(("commit", "freeze"),))
        reach_running(sim)
        sim.advance(pod_of(sim))
        sim.clock.seconds += 600
        sim.operators[0].start()
        sim.settle()
        assert (sim.row.state, sim.row.attempt, sim.row.infra_faults) == (RunState.SUCCEEDED, 2, 1)

    def test_a_store_that_lost_the_run_starts_nothing(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        sim.store.rows.clear()
        sim.store.attempts.clear()
        sim.store.log.clear()
        for _ in range(3):
            sim.operators[0].deliver()
            sim.operators[0].reconcile()
        assert (sim.shown.phase, sim.shown.reason) == ("Pending", "StoreRegressed")
        assert sim.shown.attempt == 1
        assert len(sim.cluster.created) == 1

    def test_a_status_that_somebody_else_changed_is_written_on_the_newer_object(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        sim.operators[0].reconcile()
        current = sim.cluster.runs[KEY]
        meta = current.metadata.model_copy(
            update={"resource_version": str(sim.cluster._next()), "labels": {"team": "sre"}}
        )
        sim.cluster.runs[KEY] = current.model_copy(update={"metadata": meta})
        for each in sim.live_pods():
            sim.advance(each)
        sim.operators[0].deliver()
        for each in sim.live_pods():
            sim.advance(each)
        assert sim.operators[0].reconcile() is not None
        sim.operators[0].reconcile()
        assert sim.shown.phase == "Running"
        assert sim.cluster.runs[KEY].metadata.labels == {"team": "sre"}


class TestPeople:
    """Approvals in the small world."""

    def test_a_deleted_approval_comes_back_and_never_approves(self) -> None:
        sim = Sim(scripts=(("ask",),))
        sim.settle(people=False)
        (key,) = sim.cluster.approvals
        first = sim.cluster.approvals[key].metadata.uid
        sim.cluster.drop_approval(key)
        sim.settle(people=False)
        assert sim.cluster.approvals[key].metadata.uid != first
        assert sim.row.state is RunState.SUSPENDED
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 2)

    def test_h37_recreated_decided_by_a_user(self) -> None:
        sim = Sim(scripts=(("ask",),))
        sim.settle(people=False)
        (key,) = sim.cluster.approvals
        forged = sim.cluster.approvals[key]
        sim.cluster.drop_approval(key)
        meta = forged.metadata.model_copy(update={"uid": "forged"})
        decided = forged.spec.model_copy(update={"decision": "Approve", "decided_by": "mallory"})
        sim.cluster._store_approval(forged.model_copy(update={"metadata": meta, "spec": decided}))
        sim.settle(people=False)
        assert sim.row.state is RunState.SUSPENDED
        assert sim.cluster.approvals[key].metadata.uid != "forged"
        assert sim.cluster.approvals[key].spec.decision is None

    def test_h26_approved_while_suspended_by_its_user(self) -> None:
        sim = Sim(scripts=(("ask",),))
        sim.settle(people=False)
        sim.change(suspend=True)
        sim.decide_all()
        sim.settle()
        assert sim.row.state is RunState.SUSPENDED
        assert not sim.row.pending_approvals
        assert (sim.shown.phase, sim.shown.reason) == ("Suspended", "SuspendedByUser")
        sim.change(suspend=False)
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 2)

    def test_h42_decisions_wait_until_identities_are_verified(self) -> None:
        sim = Sim(scripts=(("ask",),))
        operator = sim.operators[0]
        operator.observer.identity_verified = False
        sim.settle()
        assert (sim.shown.phase, sim.shown.reason) == ("Suspended", "ApprovalIdentityUnverified")
        assert len(sim.store.mints) == 1
        operator.observer.identity_verified = True
        sim.settle()
        assert sim.row.state is RunState.SUCCEEDED

    def test_a_decision_made_while_nobody_was_there_is_taken_up_at_the_start(self) -> None:
        sim = Sim(scripts=(("ask",),))
        sim.settle(people=False)
        sim.decide_all("Deny")
        sim.operators[0].start()
        sim.settle()
        assert (sim.row.state, sim.row.attempt) == (RunState.SUCCEEDED, 2)
        (asked,) = sim.store.approvals.values()
        assert (asked.state, asked.decided_by) == ("Denied", "alice")

    def test_the_object_shows_what_became_of_it(self) -> None:
        sim = Sim(scripts=(("ask",),))
        sim.settle()
        (approval,) = sim.cluster.approvals.values()
        status = approval.status
        assert status is not None
        assert (status.state, status.consumed_by_attempt) == ("Approved", 2)
        assert {c.type: str(c.status) for c in status.conditions} == {
            "Decided": "True",
            "Consumed": "True",
        }

    def test_an_open_question_of_a_cancelled_run_is_closed(self) -> None:
        sim = Sim(scripts=(("ask",),))
        sim.settle(people=False)
        sim.change(cancel=True)
        sim.settle(people=False)
        (approval,) = sim.cluster.approvals.values()
        assert approval.status is not None
        assert approval.status.state == "Closed"
        assert sim.row.state is RunState.CANCELLED

    def test_h71_another_operators_unbound_object_is_replaced_and_both_agree(self) -> None:
        sim = Sim(scripts=(("ask",),), operators_count=2)
        sim.settle(people=False)
        (approval,) = sim.cluster.approvals.values()
        (asked,) = sim.store.approvals.values()
        assert asked.object_uid == approval.metadata.uid


class TestEvents:
    """Posted once for what a person should know, never the sole record."""

    def test_a_life_in_events(self) -> None:
        sim = Sim(scripts=(("commit", "crash"),))
        sim.settle()
        assert [event.reason for event in sim.cluster.events] == [
            "Started",
            "AttemptFailed",
            "Succeeded",
        ]

    def test_suspension_and_its_end(self) -> None:
        sim = Sim(scripts=(("ask",),))
        sim.settle()
        assert [event.reason for event in sim.cluster.events] == [
            "Started",
            "ApprovalRequested",
            "Suspended",
            "ApprovalDecided",
            "Succeeded",
        ]


def test_foreign_runs_are_not_touched() -> None:
    sim = Sim(what={"controllerName": "other"})
    sim.settle()
    assert not sim.cluster.writes
    assert not sim.store.rows


def test_status_of_a_run_without_attempt_is_complete_enough_to_wait_on() -> None:
    sim = Sim()
    sim.cluster.refuse_pods = Forbidden("exceeded quota")
    sim.operators[0].reconcile()
    status: AgentRunStatus = sim.shown
    assert status.observed_generation == 1
    assert {c.type for c in status.conditions} >= {"Ready", "Succeeded", "Finished"}


def test_the_row_holds_the_spec_as_it_was_opened() -> None:
    sim = Sim(scripts=(("commit", "hang"),))
    reach_running(sim)
    forced = spec(prompt="Something else entirely.")
    current = sim.cluster.runs[KEY]
    sim.cluster.apply(current.model_copy(update={"spec": forced}))
    operator = sim.operators[0]
    operator.deliver()
    operator.reconcile()
    assert b"Something else" not in sim.row.spec
    world = _world(operator)
    assert world.spec is not None
    assert world.spec.prompt != forced.prompt


def _world(operator: OperatorSim) -> Any:
    from tests.controller.simulation import drive

    return drive(operator.observer.world(KEY))


def test_keys_of_objects() -> None:
    assert object_key(run()) == KEY


class TestFinished:
    """Finished runs cost nothing, not even to an operator that starts and lists them all."""

    def finished(self, **what: Any) -> Sim:
        sim = Sim(what=what)
        sim.settle()
        sim.operators[0].start()
        return sim

    def test_a_fresh_operator_leaves_it_alone(self) -> None:
        assert self.finished().operators[0].reconciler.settled(KEY)

    @pytest.mark.parametrize(
        ("ttl", "generation", "ended", "finished"),
        [
            (None, 3, True, True),
            (60, 3, True, False),
            (None, 2, True, False),
            (None, 3, False, False),
        ],
    )
    def test_only_an_end_that_was_shown_and_no_ttl(
        self, ttl: int | None, generation: int, ended: bool, finished: bool
    ) -> None:
        from tests.controller.worlds import NOW

        from agentrun.controller.reconcile import shown_finished

        status = AgentRunStatus(
            observed_generation=generation, completion_time=NOW if ended else None
        )
        what = spec(ttlSecondsAfterFinished=ttl)
        assert shown_finished(run(what, generation=3, status=status)) is finished

    def test_an_edit_brings_it_back(self) -> None:
        sim = self.finished()
        sim.change(ttlSecondsAfterFinished=60)
        sim.operators[0].deliver()
        assert not sim.operators[0].reconciler.settled(KEY)

    def test_a_pod_that_is_left_brings_it_back(self) -> None:
        sim = self.finished()
        sim.operators[0].cache.put_pod(pod())
        assert not sim.operators[0].reconciler.settled(KEY)

    def test_a_deletion_brings_it_back_once(self) -> None:
        sim = self.finished()
        sim.cluster.remove(KEY)
        operator = sim.operators[0]
        operator.deliver()
        assert not operator.reconciler.settled(KEY)
        operator.reconcile()
        assert not operator.cache.tombs(KEY)

    def test_a_live_run_is_never_settled(self) -> None:
        sim = Sim(scripts=(("commit", "hang"),))
        reach_running(sim)
        assert not sim.operators[0].reconciler.settled(KEY)


def test_a_budget_beyond_what_the_store_holds_is_as_good_as_the_largest() -> None:
    from agentrun.controller.plan.budgets import LARGEST, budgets_of

    what = spec(limits={"costUSD": "999999999"}, pricing=PRICES)
    assert budgets_of(what).cost == LARGEST
