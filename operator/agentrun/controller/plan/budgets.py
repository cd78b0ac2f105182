"""Budgets of the whole run: mutable, absent = none.

Turns, tokens and cost are checked by the runner before each model call; the operator only keeps a
run that has spent them from being started again, so that it does not spin (H68). Active time is the
operator's own, because it is the time that attempts were running.
"""

from __future__ import annotations

from agentrun.api import AgentRunSpec, OnExceeded
from agentrun.controller.plan.facts import charged, elapsed
from agentrun.run.budgets import exceeded
from agentrun.run.state import Totals
from agentrun.run.totals import LARGEST, picodollars
from agentrun.run.values import Limits
from agentrun.store.rows import Budgets, RunRow, RunState, TotalsRow


def budgets_of(spec: AgentRunSpec) -> Budgets:
    """The budgets in force. A cost budget without a price is spent from the start, because it would
    never trip otherwise (H36)."""
    limits = spec.limits
    cost = min(picodollars(limits.cost_usd), LARGEST) if limits.cost_usd is not None else None
    if unpriced(spec):
        cost = 0
    return Budgets(limits.turns, limits.tokens, cost, limits.active_deadline_seconds)


def unpriced(spec: AgentRunSpec) -> bool:
    """Whether there is a cost budget and nothing to count it in. A run that is new would be
    ``InvalidSpec``; but budgets may be set later, and prices are captured."""
    return spec.limits.cost_usd is not None and spec.pricing is None


def active_seconds(row: RunRow) -> float:
    """Time that attempts were running, the current one included."""
    seconds = row.active_ms / 1000
    if row.state is RunState.ACTIVE and row.active_since is not None and not charged(row):
        seconds += max(elapsed(row, row.active_since), 0.0)
    return seconds


def active_budget_spent(spec: AgentRunSpec, row: RunRow) -> bool:
    """Whether ``activeDeadlineSeconds`` is used up."""
    limit = spec.limits.active_deadline_seconds
    return limit is not None and active_seconds(row) >= limit


def active_budget_left(spec: AgentRunSpec, row: RunRow) -> float | None:
    """Seconds until it is; None when nothing is running it down."""
    limit = spec.limits.active_deadline_seconds
    if limit is None or row.state is not RunState.ACTIVE or row.active_since is None:
        return None
    return None if charged(row) else limit - active_seconds(row)


def spent(spec: AgentRunSpec, row: RunRow) -> str | None:
    """What is used up, in words, or None. By the same comparison as the runner's, so that a
    suspended run resumes exactly when its next model call may be made (H35, H68)."""
    if unpriced(spec):
        return "limits.costUSD: the price of the model is not known, so nothing may be spent"
    limits = budgets_of(spec)
    words = exceeded(totals_of(row.totals), Limits(limits.turns, limits.tokens, limits.cost))
    if words is None and active_budget_spent(spec, row):
        limit = limits.active_seconds
        words = f"limits.activeDeadlineSeconds: {int(active_seconds(row))} of {limit} used"
    return words


def keeps_suspended(spec: AgentRunSpec, row: RunRow) -> bool:
    """Whether a spent budget keeps the run waiting. With ``onExceeded: Fail`` the runner ends it."""
    return spec.limits.on_exceeded is OnExceeded.SUSPEND and spent(spec, row) is not None


def totals_of(totals: TotalsRow) -> Totals:
    """The row's sums as the pure functions know them."""
    return Totals(**{name: getattr(totals, name) for name in Totals.__slots__})
