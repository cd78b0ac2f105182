"""Performing actions: in order, idempotent, and void as soon as the facts have moved (H60)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.controller.simulation import OperatorSim, Sim, drive, pod_of
from tests.controller.test_scenes import reach_running
from tests.controller.worlds import KEY, UID, acts, world

from agentrun.controller.actions import (
    AddSecret,
    Charge,
    CreatePod,
    DeletePod,
    Emit,
    Finish,
    Mint,
    PurgeSecrets,
    SetRequested,
    Suspend,
)
from agentrun.controller.context import Outcome
from agentrun.controller.execute import PERFORM, execute
from agentrun.controller.world import World
from agentrun.errors import ClusterUnavailable
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import Budgets, Requested, RunState

NEWS = Emit("Warning", "Something", "Doing", "happened")


@pytest.fixture
def sim() -> Sim:
    made = Sim(scripts=(("commit", "hang"),))
    reach_running(made)
    made.cluster.events.clear()
    return made


def seen_by(sim: Sim) -> World:
    """What the operator sees now."""
    found = drive(sim.operators[0].observer.world(KEY))
    assert isinstance(found, World)
    return found


def perform(sim: Sim, at: World, *actions: Any) -> Outcome:
    """Perform them."""
    outcome = drive(execute(sim.operators[0].observer.context, at, actions))
    assert isinstance(outcome, Outcome)
    return outcome


LOST = AttemptEnd("Drained", "Infra", 143)


@pytest.mark.parametrize(
    "action",
    [
        Mint("ended", LOST),
        Charge(AttemptEnd("RunnerFailed", "App", 1), 1000),
        Finish(RunState.FAILED, "NoProgress", "why", LOST),
        Suspend("SuspendedByUser", "why", LOST),
        SetRequested(Requested.CANCEL, "User", "user", Budgets(), 0),
        AddSecret(),
    ],
)
def test_h60_when_the_facts_have_moved_nothing_that_follows_is_done(sim: Sim, action: Any) -> None:
    at = seen_by(sim)
    owner = pod_of(sim)
    operator = sim.operators[0]
    operator.ledger.forget(UID)
    sim.store.append(UID, owner.fence or 0, owner.uid, state=RunState.SUCCEEDED)
    before = sim.row
    outcome = perform(sim, at, action, CreatePod(), NEWS)
    assert outcome.moved
    assert sim.row == before
    assert not sim.cluster.events
    assert len(sim.cluster.created) == 1


def test_h60_an_outcome_over_a_commit_that_was_on_the_wire(sim: Sim) -> None:
    """The run went on after it was seen: the seq in the WHERE says so."""
    at = seen_by(sim)
    owner = pod_of(sim)
    sim.store.append(UID, owner.fence or 0, owner.uid)
    perform(sim, at, Finish(RunState.FAILED, "NoProgress", "why", LOST))
    assert sim.row.state is RunState.ACTIVE


@pytest.mark.parametrize("finish", [True, False])
def test_an_outcome_is_written_whatever_its_message_holds(sim: Sim, finish: bool) -> None:
    """Text columns take no NUL and no half of a pair; the run was once tried again for ever."""
    sim.change(suspend=not finish)
    sim.operators[0].deliver()
    sim.operators[0].reconcile()
    act = Finish(RunState.FAILED, "x", "a\0\ud800b") if finish else Suspend("x", "a\0\ud800b")
    perform(sim, seen_by(sim), act)
    assert sim.row.message == "a  b"


def test_no_pod_without_a_secret_of_its_fence(sim: Sim) -> None:
    """A decision that minted nothing is followed by no pod."""
    sim.operators[0].ledger.forget(UID)
    perform(sim, seen_by(sim), CreatePod())
    assert len(sim.cluster.created) == 1


def test_creating_a_pod_twice_is_creating_it_once(sim: Sim) -> None:
    perform(sim, seen_by(sim), CreatePod())
    perform(sim, seen_by(sim), CreatePod())
    assert len(sim.cluster.created) == 1


def test_deleting_a_pod_twice_is_deleting_it_once(sim: Sim) -> None:
    owner = pod_of(sim)
    action = DeletePod(owner.key, owner.uid)
    for _ in range(2):
        perform(sim, seen_by(sim), action)
    assert sim.operators[0].cache.pods_of(KEY)[0].deleting
    perform(sim, seen_by(sim), replace(action, uid="another"))
    assert owner.key in sim.cluster.pods


def test_purging_secrets_keeps_the_one_in_use(sim: Sim) -> None:
    perform(sim, seen_by(sim), PurgeSecrets())
    assert sim.cluster.secret_of(pod_of(sim)) is not None


def test_a_lost_event_is_only_logged(sim: Sim, caplog: pytest.LogCaptureFixture) -> None:
    async def away(_event: Any) -> None:
        raise ClusterUnavailable("no answer")

    sim.cluster.emit = away  # type: ignore[method-assign]
    perform(sim, seen_by(sim), NEWS)
    assert "was not posted: no answer" in caplog.text


def test_the_steps_of_a_start_are_failpoints_in_order() -> None:
    sim = Sim(scripts=(("ask",),))
    sim.settle()
    reached = sim.operators[0].reached
    firsts = list(dict.fromkeys(reached))
    assert firsts == [
        "after-mint",
        "after-secret",
        "after-pod-create",
        "before-status",
        "after-approval-create",
        "after-decide",
    ]


def test_every_action_can_be_performed() -> None:
    from typing import get_args

    from agentrun.controller.actions import Action

    assert set(PERFORM) == set(get_args(Action))


def test_planning_and_performing_nothing_is_nothing() -> None:
    sim = Sim()
    operator: OperatorSim = sim.operators[0]
    assert acts(world()) == ()
    assert not drive(execute(operator.observer.context, world(), ())).moved
