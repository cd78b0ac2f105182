"""Budgets: turns, tokens and cost of the whole run, checked before each model call.

A reply that is already there is never thrown away: a run whose last reply went over the budget
still succeeds.
"""

from __future__ import annotations

from agentrun.run.state import Totals
from agentrun.run.totals import PICO
from agentrun.run.values import Limits


def exceeded(totals: Totals, limits: Limits) -> str | None:
    """What is used up, in words for a person, or None while another model call may be made."""
    if limits.turns is not None and totals.turns >= limits.turns:
        return f"limits.turns: {totals.turns} of {limits.turns} used"
    if limits.tokens is not None and totals.tokens >= limits.tokens:
        return f"limits.tokens: {totals.tokens} of {limits.tokens} used"
    if limits.cost is not None and totals.cost >= limits.cost:
        return f"limits.costUSD: {dollars(totals.cost)} of {dollars(limits.cost)} used"
    return None


def dollars(amount: int) -> str:
    """Picodollars as dollars with at least two and at most six decimals."""
    whole, rest = divmod(amount, PICO)
    digits = f"{rest:012d}"[:6].rstrip("0").ljust(2, "0")
    return f"{whole}.{digits}"
