"""An append: the parameters of its statement, and what its answer means."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, LiteralString

from agentrun.errors import Fenced, StoreError, StoreRefused, StoreRegressed
from agentrun.run.values import LastWord
from agentrun.store.port import NewCommit
from agentrun.store.rows import TotalsRow
from agentrun.store.runner_store.hold import Answer, Hold
from agentrun.store.runner_store.jobs import SQL
from agentrun.store.runner_store.ledger import Group, Ledger


def statement(hold: Hold, group: Group) -> tuple[LiteralString, Sequence[Any]]:
    """The SQL and its parameters. One plain commit is the hot path."""
    last = group.entries[-1]
    prefix = (hold.run_uid, hold.fence, hold.secret, group.base, group.write_id)
    commit = last.commit
    if len(group.entries) == 1 and last.end is None and not commit.approvals:
        one = (commit.kind, commit.ref, commit.codec, commit.body, commit.progress)
        return SQL["append"], (*prefix, *one, *_sums(last.totals))
    commits = [entry.commit for entry in group.entries]
    return SQL["append_group"], (
        *prefix,
        [commit.kind for commit in commits],
        [commit.ref for commit in commits],
        [commit.codec for commit in commits],
        [commit.body for commit in commits],
        max((i for i, commit in enumerate(commits, start=1) if commit.progress), default=0),
        *_sums(last.totals),
        *_last_word(last.end),
        *_questions(commits),
    )


def _sums(totals: TotalsRow) -> tuple[int, ...]:
    return (
        totals.turns,
        totals.tool_calls,
        totals.input_tokens,
        totals.output_tokens,
        totals.cache_read_tokens,
        totals.cache_write_tokens,
        totals.cost,
    )


def _last_word(end: LastWord | None) -> tuple[Any, ...]:
    if end is None:
        return (None,) * 5
    return (str(end.state), end.reason, end.message, end.preview, end.wait_ms)


def _questions(commits: Sequence[NewCommit]) -> tuple[list[Any], ...]:
    asked = [(i, new) for i, commit in enumerate(commits, start=1) for new in commit.approvals]
    return (
        [new.id for _, new in asked],
        [at for at, _ in asked],
        [new.scope for _, new in asked],
        [new.boundary for _, new in asked],
        [new.ordinal for _, new in asked],
        [new.content for _, new in asked],
        [new.content_hash for _, new in asked],
        [new.reason for _, new in asked],
    )


class Verdict(Enum):
    """What to do next after an answer that was not ok."""

    LANDED = "landed"
    AGAIN = "again"


def judge(hold: Hold, ledger: Ledger, answer: Answer) -> Verdict | StoreError:
    """Tell landed, fenced and regressed apart.

    Order matters: one of our write ids in the row means landed whatever seq and fence say, because
    the operator leaves the write id alone when it moves the row on (H69). It is told to those
    only whose secret was the fence's.
    """
    on = str(hold)
    if answer.fence is None:
        return StoreRegressed("the run's row is gone", attempted="append", on=on)
    if answer.write_id in ledger.unresolved:
        return Verdict.LANDED
    if answer.fence > hold.fence:
        return Fenced(f"the fence has moved to {answer.fence}", attempted="append", on=on)
    if answer.fence < hold.fence or not answer.known or answer.seq is None:
        return StoreRegressed("the store forgot this attempt's claim", attempted="append", on=on)
    if answer.seq < ledger.seq:
        return regressed(hold, answer.seq, ledger.seq)
    if answer.state != "Active":
        return StoreRefused(f"the run is {answer.state}", attempted="append", on=on)
    if answer.seq > ledger.seq:
        return Fenced("another process appends under this fence", attempted="append", on=on)
    return Verdict.AGAIN


def regressed(hold: Hold, seq: int, acknowledged: int) -> StoreRegressed:
    """The store is behind what it had acknowledged."""
    return StoreRegressed(
        f"the store is at {seq}, it had acknowledged {acknowledged}",
        attempted="append",
        on=str(hold),
        advice="Commits were lost, as by a failover to an asynchronous standby.",
    )
