"""One attempt's live things, and the one way in which its state changes.

``commit`` encodes a boundary, folds it and queues it, without giving up control in between. So the
state is always the fold of what was submitted, in the order in which it becomes the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import zstandard

from agentrun.api import AgentRunSpec, OnSaveFailure
from agentrun.run import codec, totals
from agentrun.run.fold import RUNNER, fold
from agentrun.run.records import progress
from agentrun.run.state import State, Totals
from agentrun.run.values import Boundary
from agentrun.runner import failpoints
from agentrun.runner.clock import Clock
from agentrun.runner.drain import Drain
from agentrun.runner.in_flight import StepsInFlight
from agentrun.runner.lease import Lease
from agentrun.runner.model.port import Model
from agentrun.runner.observer import Observer
from agentrun.runner.tail import Entry, Tail
from agentrun.runner.tools.port import ToolServers
from agentrun.store.port import NewCommit, RunnerStore
from agentrun.store.rows import TotalsRow

POINTS = {
    "assistant/message": failpoints.AFTER_MODEL_COMMIT,
    "user/message": failpoints.AFTER_ROUND,
}
"""Failpoints that follow the landing of a commit, by its kind."""


@dataclass(slots=True)
class Attempt:
    """What the steps of an attempt work with."""

    spec: AgentRunSpec
    state: State
    store: RunnerStore
    model: Callable[[str], Model]
    """The model of an agent."""
    tools: ToolServers
    clock: Clock
    observer: Observer
    lease: Lease
    drain: Drain
    tail: Tail
    flight: StepsInFlight
    known_blobs: set[str]
    """Blobs that are in the store, or will be before any commit that follows."""
    cancelling: bool = False
    parting: Callable[[], Boundary] | None = None
    """How the attempt will end once nothing is under way: an outage that outlasts it."""

    @property
    def patient(self) -> bool:
        """Whether work may go on while a result waits for the store (onSaveFailure Continue)."""
        return self.spec.checkpoint.on_save_failure is OnSaveFailure.CONTINUE

    def commit(self, boundary: Boundary, *, after: int | None = None) -> Entry:
        """Fold a boundary and queue it. ``after``: what was in the record when its step began."""
        commit, payload = new_commit(boundary)
        sums = totals.after(self.state.totals, boundary.records)
        fold(self.state, RUNNER, boundary.records)
        self.known_blobs.update(commit.blobs)
        point = POINTS.get(boundary.kind)
        return self.tail.submit(
            commit,
            totals_row(sums),
            after=self.tail.submitted if after is None else after,
            strict=boundary.strict or not self.patient,
            payload=payload,
            end=boundary.last,
            then=None if point is None else lambda: failpoints.reach(point),
        )

    def may_send(self) -> bool:
        """Asked right before a call leaves."""
        stopping = self.cancelling or self.drain.begun or self.tail.failure is not None
        return not stopping and self.lease.may_call()

    def keeps(self, *, failed: bool) -> bool:
        """Whether an outcome that just arrived may become a commit."""
        return not self.cancelling and not (failed and self.drain.begun)

    def part(self, farewell: Callable[[], Boundary]) -> None:
        """Start nothing more; end with this once everything under way has settled."""
        self.parting = self.parting or farewell


def new_commit(boundary: Boundary) -> tuple[NewCommit, int]:
    """The row of a boundary, and its size before compression."""
    encoded = codec.encode(boundary.records)
    blobs = {**encoded.blobs, **boundary.blobs}
    commit = NewCommit(
        kind=boundary.kind,
        ref=boundary.ref,
        codec=encoded.codec,
        body=encoded.body,
        progress=progress(boundary.records),
        approvals=boundary.questions,
        blobs=blobs,
    )
    return commit, _plain_size(encoded) + sum(map(len, blobs.values()))


def _plain_size(encoded: codec.Encoded) -> int:
    """Bytes of a body before compression."""
    if encoded.codec != codec.ZSTD:
        return len(encoded.body)
    return int(zstandard.frame_content_size(encoded.body))


def totals_row(sums: Totals) -> TotalsRow:
    """Sums as the run row keeps them."""
    return TotalsRow(
        turns=sums.turns,
        tool_calls=sums.tool_calls,
        input_tokens=sums.input_tokens,
        output_tokens=sums.output_tokens,
        cache_read_tokens=sums.cache_read_tokens,
        cache_write_tokens=sums.cache_write_tokens,
        cost=sums.cost,
    )
