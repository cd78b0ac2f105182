"""The operator's own commits (H18, H47)."""

from __future__ import annotations

import hashlib
import random
from typing import Any

from tests.controller.worlds import (
    NAME,
    UID,
    charged_row,
    expired_row,
    pending_row,
    request,
    row,
    suspended_row,
)

from agentrun.controller.actions import Decide, Finish, Suspend
from agentrun.controller.attempts import (
    Identity,
    decision_body,
    finish_body,
    new_attempt,
    new_identity,
    secret_hash,
    suspend_body,
)
from agentrun.run.codec import decode
from agentrun.run.records import OPERATOR_OWNED
from agentrun.store.port import AttemptEnd
from agentrun.store.rows import RunState

IDENTITY = Identity("a" * 32, "b" * 16, "secret", "cafe0001")


def records(made: Any) -> list[Any]:
    """What a body holds."""
    return list(decode(made.codec, made.body, {}))


def types(made: Any) -> list[str]:
    """The types of its records."""
    return [record.type for record in records(made)]


def test_the_first_mint_starts_the_run() -> None:
    made = new_attempt(pending_row(), "start", None, IDENTITY)
    start, first = records(made)
    assert (start.type, start.run_uid, start.spec_hash) == (
        "run/start",
        UID,
        pending_row().spec_hash,
    )
    assert (first.attempt, first.fence, first.continued_from) == (1, 1, None)
    assert made.pod == f"{NAME}-1a2b3-1"


def test_a_takeover_records_the_end_and_the_link() -> None:
    end = AttemptEnd("LeaseExpired", "Infra")
    ended, started = records(new_attempt(expired_row(), "lease-expired", end, IDENTITY))
    assert (ended.attempt, ended.cause, ended.fault, ended.exit_code) == (
        1,
        "LeaseExpired",
        "Infra",
        None,
    )
    assert (started.attempt, started.fence) == (2, 2)
    link = started.continued_from
    assert (link.attempt, link.trace_id, link.span_id, link.seq) == (
        1,
        row().trace_id,
        row().span_id,
        row().seq,
    )
    assert (started.trace_id, started.span_id) == ("a" * 32, "b" * 16)


def test_a_charged_end_is_recorded_with_the_mint_that_follows() -> None:
    ended, started = records(new_attempt(charged_row(), "charged", None, IDENTITY))
    assert (ended.cause, ended.fault, ended.exit_code) == ("RunnerFailed", "App", 1)
    assert started.attempt == 2


def test_a_resumed_run_has_no_end_to_record() -> None:
    assert types(new_attempt(suspended_row(), "resumed", None, IDENTITY)) == ["attempt/start"]


def test_an_outcome_before_the_first_mint_still_starts_with_the_run() -> None:
    finish = Finish(RunState.CANCELLED, "CancelledByUser", "spec.cancel was set")
    assert types(finish_body(pending_row(), finish)) == ["run/start", "run/end"]


def test_an_outcome_records_the_end_that_brought_it() -> None:
    finish = Finish(RunState.FAILED, "NoProgress", "why", AttemptEnd("OOMKilled", "App", 137))
    ended, outcome = records(finish_body(row(), finish))
    assert (ended.cause, ended.exit_code) == ("OOMKilled", 137)
    assert (outcome.outcome, outcome.reason, outcome.message) == ("Failed", "NoProgress", "why")


def test_a_suspension_by_the_operator() -> None:
    suspend = Suspend("SuspendedByUser", "spec.suspend is set", AttemptEnd("NotSettled", "None"))
    assert types(suspend_body(row(), suspend)) == ["attempt/end", "run/suspend"]


def test_a_decision_names_its_request_and_who_decided() -> None:
    act = Decide(request(), "approval-1", "Deny", "alice", "not now", mint=False)
    (decision,) = records(decision_body(act))
    assert (decision.id, decision.decision, decision.decided_by, decision.reason) == (
        request().id,
        "Deny",
        "alice",
        "not now",
    )


def test_h47_only_the_operators_own_types_and_ends() -> None:
    made = [
        new_attempt(pending_row(), "start", None, IDENTITY),
        new_attempt(expired_row(), "gone", AttemptEnd("PodGone", "Infra"), IDENTITY),
        decision_body(Decide(request(), "u", "Approve", "alice", "", mint=True)),
    ]
    assert {kind for each in made for kind in types(each)} <= OPERATOR_OWNED


def test_h18_identities_are_made_of_the_randomness_given() -> None:
    source = random.Random(7)
    seen = [new_identity(lambda size: source.randbytes(size).hex()) for _ in range(50)]
    assert len({identity.secret for identity in seen}) == 50
    assert all(len(identity.secret) == 64 for identity in seen)
    assert {(len(i.trace_id), len(i.span_id)) for i in seen} == {(32, 16)}


def test_trace_ids_are_never_all_zeros() -> None:
    identity = new_identity(lambda size: "00" * size)
    assert int(identity.trace_id, 16) != 0
    assert int(identity.span_id, 16) != 0
    assert (len(identity.trace_id), len(identity.span_id)) == (32, 16)


def test_the_store_gets_a_hash_and_the_secret_does_not_show() -> None:
    made = new_attempt(row(), "ended", AttemptEnd("Drained", "Infra", 143), IDENTITY)
    assert made.secret_hash == hashlib.sha256(b"secret").digest() == secret_hash("secret")
    assert b"secret" not in made.body
    assert "secret=" not in repr(IDENTITY)
