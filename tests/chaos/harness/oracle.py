"""What a run has left behind, and whether it is what an undisturbed run leaves behind."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.chaos.harness.stage import Stage
from tests.peers.toolserver import lines, requests_file

from agentrun.api import AgentRun
from agentrun.run.exact import exact_json
from agentrun.run.fold import RUNNER, fold_all
from agentrun.run.identity import CallId, call_key
from agentrun.run.log import Log
from agentrun.run.records import AttemptStart, LlmRequest, Record, ToolResult
from agentrun.run.state import State, Totals
from agentrun.run.verify import verify
from agentrun.store.rows import RunRow

Line = dict[str, Any]
R_co = TypeVar("R_co", bound=Record, covariant=True)


@dataclass(frozen=True)
class Written(Generic[R_co]):
    """One record and the commit it is in."""

    seq: int
    origin: str
    fence: int
    attempt: int
    record: R_co


@dataclass(frozen=True)
class Trail:
    """Everything that is known about one run: its object, row, record, and what others saw of it."""

    run: AgentRun
    row: RunRow
    log: Log
    state: State
    written: tuple[Written[Record], ...]
    asked: tuple[Line, ...]
    """Requests that the model got."""
    called: tuple[Line, ...]
    """Calls that the tool server got, in order."""
    done: tuple[Line, ...]
    """Effects that the tool server had."""

    def of(self, kind: type[R_co]) -> list[Written[R_co]]:
        """All records of a type."""
        return [
            Written(one.seq, one.origin, one.fence, one.attempt, one.record)
            for one in self.written
            if isinstance(one.record, kind)
        ]


async def trail(stage: Stage, name: str, model_log: Path, effects: Path) -> Trail:
    """Read everything about a run."""
    run = await stage.user.get_run(name)
    uid = run.metadata.uid
    row = await stage.store.run(uid)
    assert row is not None
    log = await stage.log(uid)
    called = tuple(line for line in lines(requests_file(effects)) if line["meta"]["run-uid"] == uid)
    keys = {line["key"] for line in called}
    return Trail(
        run,
        row,
        log,
        fold_all((commit.origin, records) for commit, records in log.decoded()),
        tuple(
            Written(commit.seq, commit.origin, commit.fence, commit.attempt, record)
            for commit, records in log.decoded()
            for record in records
        ),
        tuple(lines(model_log)),
        called,
        tuple(line for line in lines(effects) if line["key"] in keys),
    )


def messages(state: State) -> bytes:
    """All conversations, exactly as models saw them."""
    return exact_json({path: talk.messages for path, talk in state.conversations.items()})


def check_record(found: Trail) -> None:
    """The record by itself: dense, fenced, verified, and the status says the same."""
    commits = found.log.commits
    assert [commit.seq for commit in commits] == list(range(1, len(commits) + 1))
    fences = [commit.fence for commit in commits]
    assert fences == sorted(fences), f"a stale fence wrote: {fences}"
    report = verify(found.log)
    assert report.verdict == "ok", report.findings
    refs = [commit.ref for commit in commits if commit.ref is not None]
    assert len(refs) == len(set(refs)), "a call has two committed results"
    check_status(found)
    check_chain_of_attempts(found)


def check_status(found: Trail) -> None:
    """Status and row equal the fold of the record."""
    status, row, sums = found.run.status, found.row, found.state.totals
    assert status is not None
    assert status.usage is not None
    assert (status.attempt, status.fence) == (row.attempt, row.fence)
    assert status.usage.turns == row.totals.turns == sums.turns
    assert status.usage.tool_calls == row.totals.tool_calls == sums.tool_calls
    assert status.usage.total_tokens == sums.tokens
    assert row.totals.cost == sums.cost
    assert row.seq == len(found.log.commits)


def check_chain_of_attempts(found: Trail) -> None:
    """Every attempt but the first names the one before: trace, root span and last commit."""
    starts = found.of(AttemptStart)
    assert [one.record.attempt for one in starts] == list(range(1, found.row.attempt + 1))
    status = found.run.status
    assert status is not None
    shown = {item.attempt: item for item in status.attempts}
    for before, after in pairwise(starts):
        link = after.record.continued_from
        assert link is not None
        assert link.attempt == before.record.attempt
        assert (link.trace_id, link.span_id) == (before.record.trace_id, before.record.span_id)
        assert link.seq == _last_seq(found, before, after)
        item = shown.get(after.record.attempt)
        if item is None or before.record.attempt not in shown:
            continue
        assert item.continued_from is not None
        assert (item.continued_from.attempt, item.continued_from.seq) == (link.attempt, link.seq)
        assert item.continued_from.trace_id == link.trace_id
        assert item.continued_from.span_id == link.span_id
    assert all(one.record.continued_from is None for one in starts[:1])


def _last_seq(found: Trail, before: Written[AttemptStart], after: Written[AttemptStart]) -> int:
    """The last commit of an attempt: its own start, or what its runner wrote."""
    written = (one.seq for one in found.log.commits if one.origin == RUNNER)
    return max((seq for seq in written if before.seq < seq < after.seq), default=before.seq)


def check_effects(found: Trail) -> None:
    """No committed call runs again; a charge happens once whatever happens."""
    committed = {_key(found, one.record.call): one for one in found.of(ToolResult)}
    for key in {line["key"] for line in found.called}:
        attempts = [line["meta"]["attempt"] for line in found.called if line["key"] == key]
        assert len(set(attempts)) == len(attempts), f"{key} was sent twice by one attempt"
        if key in committed:
            assert max(attempts) <= committed[key].attempt, f"{key} ran again after its result"
    charges = [line["key"] for line in found.done if line["tool"] == "charge"]
    assert len(charges) == len(set(charges)), "somebody was charged twice"
    for line in found.called:
        assert line["header"] in (None, line["key"])


def _key(found: Trail, call: str) -> str:
    return call_key(found.row.run_uid, CallId.parse(call))


def check_requests(found: Trail, reference: Trail) -> None:
    """Every attempt asks the model with the very bytes that the undisturbed run sent (C-bytes)."""
    expected = {line["turn"]: line["sha256"] for line in reference.asked}
    for line in found.asked:
        assert line["sha256"] == expected[line["turn"]], f"turn {line['turn']} differs"
    recorded = {one.record.turn: one.record.request_hash for one in found.of(LlmRequest)}
    assert recorded == {turn + 1: digest for turn, digest in expected.items()}


def check_same_end(found: Trail, reference: Trail) -> None:
    """The run ended as the undisturbed one did: conversation, result, files, totals, effects."""
    assert found.row.state == reference.row.state, (found.row.state, found.row.message)
    assert messages(found.state) == messages(reference.state)
    assert _results(found) == _results(reference)
    assert files(found.state) == files(reference.state)
    assert _sums(found.state.totals) == _sums(reference.state.totals)
    assert _effects(found) == _effects(reference)
    assert found.row.preview == reference.row.preview


def files(state: State) -> dict[str, dict[str, str]]:
    """Paths and hashes of every workspace's files."""
    return {
        server: {path: str(entry[0]) for path, entry in tree.items()}
        for server, tree in state.files.items()
    }


def sha256(data: bytes) -> str:
    """As files are named in the record."""
    return hashlib.sha256(data).hexdigest()


def _results(found: Trail) -> dict[str, Any]:
    return {task.id: (task.phase, task.result) for task in found.state.tasks.values()}


def _sums(totals: Totals) -> dict[str, int]:
    return {name: getattr(totals, name) for name in Totals.__slots__}


def _effects(found: Trail) -> list[tuple[str, str]]:
    """Charges that were made, whoever made them in whatever order."""
    return sorted(
        (line["tool"], str(line["args"])) for line in found.done if line["tool"] == "charge"
    )
