"""The facts that one decision is made from, as one frozen value.

A world is observed in this order: cached objects first, then the row. So whatever a pod did before
its end was seen (its last commit) is in the row. Durations come from a monotonic clock of this
process; moments are the database's, and nothing compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from agentrun.api import AgentRun, AgentRunSpec, Approval, Reason
from agentrun.cluster.values import ObjectKey, PodView
from agentrun.controller.settings import Settings
from agentrun.store.rows import RunRow


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch without a successful poll of the store: its length, and how long ago it ended."""

    length: float
    ended_ago: float


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far this process may trust what it has not seen (H14, H15, H70)."""

    synced: bool = True
    """All caches hold a complete list of their kind."""
    since_start: float = 0.0
    since_poll: float | None = None
    """Age of the last successful poll; None before the first."""
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The answer of a live GET of a pod's name, made for this very decision."""

    name: str
    pod: PodView | None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a pod or its inputs could not be made, and how long to wait before the next try."""

    reason: Reason
    message: str
    retry_in: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything ``plan`` may look at.

    ``run`` is None when the object is gone; ``gone_uid`` then says which object it was. ``spec`` is
    the captured spec (the truth for ever) with the mutable fields of the object; None while there
    is no row. When the captured one cannot be read (``unreadable`` says why) it is the object's.
    """

    key: ObjectKey
    settings: Settings
    freshness: Freshness
    now: datetime
    """Wall clock, for the stamps of conditions only."""
    run: AgentRun | None = None
    gone_uid: str = ""
    gone_run: AgentRun | None = None
    """The object as it was when it went, if this process saw it go."""
    namespace_terminating: bool = False
    row: RunRow | None = None
    store_up: bool = True
    spec: AgentRunSpec | None = None
    unreadable: Reason | None = None
    problems: tuple[str, ...] = ()
    pods: tuple[PodView, ...] = ()
    approvals: tuple[Approval, ...] = ()
    confirmed: Confirmed | None = None
    trouble: Trouble | None = None
    requested_age: float = 0.0
    """How long this process has seen the row ask for what it asks for."""
    stray_secrets: bool = False
    """Whether Secrets of attempts may exist that no pod needs any more."""
    identity_verified: bool = True
    """Whether the API server was seen to refuse a forged decision (H42)."""

    @property
    def seen_run(self) -> AgentRun | None:
        """The object, or what it was."""
        return self.run if self.run is not None else self.gone_run

    @property
    def live_run(self) -> AgentRun | None:
        """The object, if things may still be created for it (H24)."""
        if self.run is None or self.run.metadata.deleting or self.namespace_terminating:
            return None
        return self.run
