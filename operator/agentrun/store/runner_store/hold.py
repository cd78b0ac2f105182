"""Who is asking: the identity that every statement of an attempt carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from agentrun.store.port import Control
from agentrun.store.rows import Budgets, Requested


@dataclass(frozen=True, slots=True)
class Hold:
    """One attempt's hold on its run. ``secret`` is the raw secret; the database has its hash."""

    run_uid: str
    fence: int
    secret: bytes
    holder: str
    nonce: str
    node: str | None = None

    def parameters(self, **more: Any) -> dict[str, Any]:
        """The first three parameters of every function, and others."""
        return {"run_uid": self.run_uid, "fence": self.fence, "secret": self.secret, **more}

    def __str__(self) -> str:
        return f"run {self.run_uid}, fence {self.fence}"

    def __repr__(self) -> str:  # the secret stays out of logs
        return f"Hold({self})"


class Answer(NamedTuple):
    """What ``renew`` and ``append`` answer, in the order of their OUT parameters.

    ``ok``: it took effect. Otherwise: how the caller stands to the run. ``known`` tells whether the
    secret is, or was, the one of the caller's fence; a stranger learns the fence only. ``fence``
    None means that there is no such run.
    """

    ok: bool
    known: bool
    fence: int | None
    seq: int | None
    state: str | None
    write_id: UUID | None
    requested: str | None
    requested_reason: str | None
    budget_turns: int | None
    budget_tokens: int | None
    budget_cost: int | None
    budget_active_s: int | None
    lease_ms: int | None

    def control_columns(self) -> tuple[object, ...]:
        """The columns that make the control, to see cheaply whether it changed."""
        return self[6:]

    def control(self) -> Control:
        """What the operator wants; only of an answer that is ok."""
        return Control(
            requested=Requested(self.requested or "run"),
            requested_reason=self.requested_reason or "",
            budgets=Budgets(
                turns=self.budget_turns,
                tokens=self.budget_tokens,
                cost=self.budget_cost,
                active_seconds=self.budget_active_s,
            ),
            lease_ms=self.lease_ms or 0,
        )
