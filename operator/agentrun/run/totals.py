"""Sums over a run, kept on the run row with every append. Nothing restarts from zero."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal

from agentrun.api import Pricing
from agentrun.run.records import AssistantMessage, Record, ToolResult, Usage
from agentrun.run.state import Totals

PICO = 10**12
LARGEST = 2**63 - 1
"""What the store's integers hold: nine million dollars in picodollars. A sum stops there, because a
provider may count what it likes, and a sum that could not be stored would stop the run for good."""
_PER_MTOK = 10**6


def after(totals: Totals, records: Iterable[Record]) -> Totals:
    """Totals once these records are in; the argument is not changed."""
    new = Totals(**{name: getattr(totals, name) for name in Totals.__slots__})
    for record in records:
        count(new, record)
    return new


def count(totals: Totals, record: Record) -> None:
    """Add one record in place."""
    if isinstance(record, AssistantMessage):
        usage = record.usage
        totals.turns += 1
        totals.input_tokens = _sum(totals.input_tokens, usage.input_tokens)
        totals.output_tokens = _sum(totals.output_tokens, usage.output_tokens)
        totals.cache_read_tokens = _sum(totals.cache_read_tokens, usage.cache_read_tokens)
        totals.cache_write_tokens = _sum(totals.cache_write_tokens, usage.cache_write_tokens)
        totals.cost = _sum(totals.cost, record.cost)
    elif isinstance(record, ToolResult):
        totals.tool_calls += 1


def cost(usage: Usage, pricing: Pricing | None) -> int:
    """Price of one model call in picodollars; 0 without a price.

    Tokens of the prompt cache cost what input costs unless they have a price of their own.
    """
    if pricing is None:
        return 0
    price_in = Decimal(pricing.input_per_m_tok)
    parts = (
        (usage.input_tokens, price_in),
        (usage.output_tokens, Decimal(pricing.output_per_m_tok)),
        (usage.cache_read_tokens, _or(pricing.cache_read_per_m_tok, price_in)),
        (usage.cache_write_tokens, _or(pricing.cache_write_per_m_tok, price_in)),
    )
    dollars = sum((tokens * price for tokens, price in parts), Decimal(0)) / _PER_MTOK
    return picodollars(dollars)


def picodollars(dollars: Decimal | str) -> int:
    """A decimal amount of US dollars in picodollars, rounded half up."""
    return int((Decimal(dollars) * PICO).to_integral_value(ROUND_HALF_UP))


def _sum(total: int, more: int) -> int:
    return min(total + more, LARGEST)


def _or(price: str | None, default: Decimal) -> Decimal:
    return default if price is None else Decimal(price)
