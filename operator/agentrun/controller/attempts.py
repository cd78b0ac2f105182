"""The commits that the operator itself writes: starts and ends of attempts, outcomes, decisions.

Pure: identifiers and secrets come in as arguments (H18: every attempt's secret is random, so that no
pod can work out the credentials of the next fence).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

from agentrun.api.names import pod_name
from agentrun.controller.actions import Decide, Finish, Suspend
from agentrun.controller.plan.facts import current_attempt
from agentrun.run import records
from agentrun.run.codec import Encoded, encode
from agentrun.store.port import AttemptEnd, NewAttempt
from agentrun.store.rows import RunRow

RandomHex = Callable[[int], str]
"""So many random bytes, as hex digits."""

TRACE_BYTES, SPAN_BYTES, SECRET_BYTES, SUFFIX_BYTES = 16, 8, 32, 4


@dataclass(frozen=True, slots=True)
class Identity:
    """What is made up anew for one attempt."""

    trace_id: str
    span_id: str
    secret: str = field(repr=False)
    suffix: str
    """Random end of the Secret's name, so that nobody can squat it (H50)."""


def new_identity(random_hex: RandomHex) -> Identity:
    """Fresh ids; trace and span ids are never all zeros (W3C Trace Context)."""
    return Identity(
        _non_zero(random_hex, TRACE_BYTES),
        _non_zero(random_hex, SPAN_BYTES),
        random_hex(SECRET_BYTES),
        random_hex(SUFFIX_BYTES),
    )


def _non_zero(random_hex: RandomHex, size: int) -> str:
    text = random_hex(size)
    return text if int(text, 16) else "1".rjust(2 * size, "0")


def secret_hash(secret: str) -> bytes:
    """What the store keeps of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def new_attempt(
    row: RunRow, because: str, end: AttemptEnd | None, identity: Identity
) -> NewAttempt:
    """The attempt that follows what was seen, with its commit."""
    found = _start_records(row, because, end, identity)
    encoded = _encoded(found)
    return NewAttempt(
        secret_hash=secret_hash(identity.secret),
        trace_id=identity.trace_id,
        span_id=identity.span_id,
        pod=pod_name(row.name, row.object_uid, row.attempt + 1),
        body=encoded.body,
        codec=encoded.codec,
    )


def _start_records(
    row: RunRow, because: str, end: AttemptEnd | None, identity: Identity
) -> tuple[records.Record, ...]:
    """``run/start`` before everything, the end of the last attempt where it is not recorded yet."""
    start = records.AttemptStart(
        attempt=row.attempt + 1,
        fence=row.fence + 1,
        trace_id=identity.trace_id,
        span_id=identity.span_id,
        continued_from=_link(row),
    )
    return (*_run_start(row), *_end_records(row, _known_end(row, because, end)), start)


def _known_end(row: RunRow, because: str, end: AttemptEnd | None) -> AttemptEnd | None:
    """A charge counts without a commit, so its end is recorded with the mint that follows."""
    attempt = current_attempt(row)
    if end is None and because == "charged" and attempt is not None and attempt.cause:
        return AttemptEnd(attempt.cause, attempt.fault or "None", attempt.exit_code)
    return end


def _run_start(row: RunRow) -> tuple[records.Record, ...]:
    if row.attempt:
        return ()
    return (records.RunStart(run_uid=row.run_uid, mode="prompt", spec_hash=row.spec_hash),)


def _end_records(row: RunRow, end: AttemptEnd | None) -> tuple[records.Record, ...]:
    if end is None or not row.attempt:
        return ()
    fault = end.fault if end.fault in ("Infra", "App") else "None"
    return (
        records.AttemptEnd(
            attempt=row.attempt,
            cause=str(end.cause),
            fault=cast("Literal['None', 'Infra', 'App']", fault),
            exit_code=end.exit_code,
        ),
    )


def _link(row: RunRow) -> records.TraceLink | None:
    """Trace, root span and last commit of the attempt that this one goes on from."""
    if not row.attempt:
        return None
    attempt = current_attempt(row)
    last = attempt.last_seq if attempt is not None and attempt.last_seq is not None else row.seq
    return records.TraceLink(
        attempt=row.attempt, trace_id=row.trace_id, span_id=row.span_id, seq=last
    )


def finish_body(row: RunRow, action: Finish) -> Encoded:
    """The outcome, after the end of the attempt that it takes the run from."""
    outcome = cast("Literal['Succeeded', 'Failed', 'Cancelled', 'Rejected']", action.state.value)
    end = records.RunEnd(outcome=outcome, reason=str(action.reason), message=action.message)
    return _encoded((*_run_start(row), *_end_records(row, action.end), end))


def suspend_body(row: RunRow, action: Suspend) -> Encoded:
    """The suspension, after the end of the attempt that it takes the run from."""
    suspend = records.RunSuspend(reason=str(action.reason), message=action.message)
    return _encoded((*_end_records(row, action.end), suspend))


def decision_body(action: Decide) -> Encoded:
    """A decision, bound to its request."""
    decision = records.ApprovalDecision(
        id=action.request.id,
        decision=cast("Literal['Approve', 'Deny', 'Stale']", action.decision),
        decided_by=action.decided_by,
        reason=action.reason,
    )
    return _encoded((decision,))


def _encoded(found: tuple[records.Record, ...]) -> Encoded:
    """The port takes a body only, so a text that would become a blob must not be in it."""
    encoded = encode(found)
    assert not encoded.blobs, "the operator's records hold no long texts"
    return encoded
