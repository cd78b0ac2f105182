"""What is worth telling about an attempt, as events. None of them takes content.

The loop speaks to an :class:`Observer`; this one hears nothing. ``runner/reporting.py`` turns the
events into log lines, metrics and spans.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from agentrun.run.identity import CallId
from agentrun.run.state import State
from agentrun.run.values import Reply
from agentrun.runner.exits import Ending
from agentrun.runner.model.port import ModelNote
from agentrun.store.port import Claim


class Observer:
    """Every event, doing nothing."""

    def span(self, name: str, **facts: object) -> AbstractContextManager[None]:
        """A stretch of time worth a span."""
        return nullcontext()

    def claimed(self, claim: Claim) -> None:
        """This process holds the run."""

    def restored(self, state: State, commits: int, snapshot_seq: int, seconds: float) -> None:
        """The state is back."""

    def landed(self, kind: str, seq: int, seconds: float, payload: int, stored: int) -> None:
        """A commit is durable, ``seconds`` after its step had finished."""

    def snapshot(self, seq: int, size: int) -> None:
        """A snapshot is written."""

    def snapshot_failed(self, error: Exception) -> None:
        """A snapshot was not written; the commits are all there, so nothing is lost."""

    def model_note(self, note: ModelNote) -> None:
        """What the model adapter says about a request."""

    def replied(self, conversation: str, turn: int, reply: Reply) -> None:
        """A whole reply arrived."""

    def discarded(self) -> None:
        """A model call was given up, or its reply not used."""

    def answered(self, call: CallId, tool: str, *, failed: bool) -> None:
        """A tool's server answered."""

    def silent(self, call: CallId, tool: str, policy: str) -> None:
        """A call was sent and nobody answered."""

    def unreachable(self, server: str, error: Exception) -> None:
        """A tool server could not be reached; it is tried again."""

    def toolset(self, agent: str, count: int) -> None:
        """The recorded tools of an agent changed."""

    def environment_reset(self, server: str) -> None:
        """A tool server lost its state, and the model will be told."""

    def requested(self, requested: str, reason: str) -> None:
        """The operator wants something else than before."""

    def draining(self, seconds: float) -> None:
        """SIGTERM: this long is left."""

    def store_error(self, error: Exception) -> None:
        """The store failed an operation."""

    def failed(self, error: Exception) -> None:
        """Something that no rule foresees."""

    def ended(self, ending: Ending) -> None:
        """The attempt is over."""
