"""What performing actions needs, and what one pass over a plan has come to so far."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from agentrun.api import AgentRun, AgentRunSpec
from agentrun.cluster.port import Cluster
from agentrun.controller.attempts import RandomHex
from agentrun.controller.cache import Cache
from agentrun.controller.failpoints import Reach, nothing
from agentrun.controller.ledger import Ledger
from agentrun.controller.meter import Meter
from agentrun.controller.settings import Settings
from agentrun.controller.world import Confirmed, World
from agentrun.store.port import OperatorStore
from agentrun.store.rows import RunRow

Credentials = Callable[[str], Awaitable[str]]
"""DSN for the runners of a namespace, by the namespace's UID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The ports, and this process's memory."""

    store: OperatorStore
    cluster: Cluster
    cache: Cache
    ledger: Ledger
    settings: Settings
    random_hex: RandomHex
    credentials: Credentials
    reach: Reach = nothing
    meter: Meter = field(default_factory=Meter)


@dataclass(slots=True)
class Pass:
    """One plan being performed. ``row`` follows our own writes; ``stop`` says that the facts have
    moved under us, so that the rest of the plan is void."""

    world: World
    row: RunRow | None
    confirmed: Confirmed | None = None
    moved: bool = False
    stop: bool = False

    @property
    def run(self) -> AgentRun:
        """The object; actions that create anything are only planned for one."""
        assert self.world.run is not None
        return self.world.run

    @property
    def seen_run(self) -> AgentRun:
        """The object, or what it was when it went."""
        assert self.world.seen_run is not None
        return self.world.seen_run

    @property
    def spec(self) -> AgentRunSpec:
        """The spec in force."""
        return self.world.spec or self.run.spec

    @property
    def owned(self) -> RunRow:
        """The row; actions on it are only planned when there is one."""
        assert self.row is not None
        return self.row

    def took(self, row: RunRow | None) -> bool:
        """Follow a write: None means that somebody was faster. Either way, observe again."""
        self.moved = True
        if row is None:
            self.stop = True
            return False
        self.row = row
        return True


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the facts have changed, and what a live read showed."""

    moved: bool
    confirmed: Confirmed | None = field(default=None)
