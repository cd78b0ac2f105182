"""Rows of the database as the values of rows.py."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentrun.store.rows import (
    ApprovalRow,
    AttemptRow,
    Budgets,
    Requested,
    RunRow,
    RunState,
    TotalsRow,
)

_TOTALS = (
    "turns",
    "tool_calls",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
)
_PLAIN = (
    "run_uid",
    "object_uid",
    "installation",
    "namespace",
    "name",
    "run_id",
    "spec_hash",
    "generation",
    "reason",
    "message",
    "attempt",
    "fence",
    "holder",
    "lease_ttl_ms",
    "lease_expires_at",
    "seq",
    "snapshot_seq",
    "requested_reason",
    "requested_by",
    "app_faults",
    "infra_faults",
    "faults_at_progress",
    "backoff_step",
    "retry_at",
    "progress_seq",
    "trace_id",
    "span_id",
    "active_ms",
    "active_since",
    "preview",
    "created_at",
    "first_commit_at",
    "last_commit_at",
    "suspended_at",
    "finished_at",
    "db_now",
)


def run_row(row: Mapping[str, Any]) -> RunRow:
    """A row of ``agentrun.run_facts``, or of ``agentrun.run_row`` (no spec, no lists)."""
    return RunRow(
        **{name: row[name] for name in _PLAIN},
        spec=row.get("spec", b""),
        state=RunState(row["state"]),
        requested=Requested(row["requested"]),
        budgets=Budgets(
            turns=row["budget_turns"],
            tokens=row["budget_tokens"],
            cost=row["budget_cost"],
            active_seconds=row["budget_active_s"],
        ),
        totals=TotalsRow(**{name: row[name] for name in _TOTALS}),
        pending_approvals=tuple(_approval(one) for one in row.get("pending_approvals") or ()),
        attempts=tuple(_attempt(one) for one in row.get("attempts") or ()),
        unasked=row.get("unasked", False),
    )


def _approval(one: dict[str, Any]) -> ApprovalRow:
    return ApprovalRow(
        **{
            **one,
            "content": base64.b64decode(one["content"]),
            "requested_at": _time(one["requested_at"]),
            "decided_at": _time(one["decided_at"]),
        }
    )


def _attempt(one: dict[str, Any]) -> AttemptRow:
    times = {name: _time(one[name]) for name in ("started_at", "claimed_at", "ended_at")}
    return AttemptRow(**{**one, **times})


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
