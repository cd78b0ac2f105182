"""The queue of appends against a model of the run row, under every fate a statement can have."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrun.errors import (
    Fenced,
    SchemaMismatch,
    StoreError,
    StoreRefused,
    StoreRegressed,
    StoreUnavailable,
)
from agentrun.run.values import LastWord
from agentrun.store.failures import is_outage, translate
from agentrun.store.port import NewCommit
from agentrun.store.rows import RunState, TotalsRow
from agentrun.store.runner_store.appending import Verdict, judge
from agentrun.store.runner_store.hold import Answer, Hold
from agentrun.store.runner_store.ledger import MAX_BYTES, MAX_ROWS, Entry, Group, Ledger
from agentrun.store.sql import load

HOLD = Hold("run", 1, b"the attempt's secret", "pod", "nonce")


@dataclass
class Row:
    """The run row, as append_v1 sees it: fence and state do not change here."""

    seq: int = 0
    write_id: UUID | None = None
    log: list[bytes] = field(default_factory=list)

    def append(self, group: Group) -> Answer:
        ok = group.base == self.seq
        if ok:
            self.seq += len(group.entries)
            self.write_id = group.write_id
            self.log += [entry.commit.body for entry in group.entries]
        nothing = (None,) * 7
        return Answer(ok, True, 1, self.seq, "Active", self.write_id, *nothing)


@dataclass
class Scene:
    """One runner, its row, and statements that are still on their way."""

    row: Row = field(default_factory=Row)
    late: list[Group] = field(default_factory=list)
    told: dict[int, int | StoreError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = itertools.count(1)
        self.ledger = Ledger(lambda: UUID(int=next(numbers)))
        self.queued = 0

    def queue(self, count: int) -> None:
        for number in range(self.queued, self.queued + count):
            self.ledger.waiting.append(entry(b"%d" % number, lambda r, n=number: self.tell(n, r)))
        self.queued += count

    def tell(self, number: int, result: int | StoreError) -> None:
        assert number not in self.told, "told once"
        self.told[number] = result

    def send(self, fate: str) -> None:
        if not self.ledger.waiting:
            return
        group = self.ledger.send(self.ledger.take())
        if fate == "lost request":
            return
        if fate == "late":
            self.late.append(group)
            return
        answer = self.row.append(group)
        if fate == "lost answer":
            return
        if answer.ok:
            self.ledger.landed(group)
            return
        verdict = judge(HOLD, self.ledger, answer)
        assert verdict is Verdict.LANDED, verdict
        assert answer.write_id is not None
        self.ledger.landed(self.ledger.unresolved[answer.write_id])

    def arrive(self) -> None:
        if self.late:
            self.row.append(self.late.pop(0))


STEPS = st.one_of(
    st.tuples(st.just("queue"), st.integers(1, 70)),
    st.tuples(st.just("send"), st.sampled_from(["ok", "lost answer", "lost request", "late"])),
    st.tuples(st.just("arrive"), st.none()),
)


@given(st.lists(STEPS, max_size=40))
def test_h69_every_commit_lands_once_in_order_whatever_is_lost_or_late(
    steps: list[tuple[str, int | str | None]],
) -> None:
    scene = Scene()
    for step, argument in steps:
        if step == "queue":
            assert isinstance(argument, int)
            scene.queue(argument)
        elif step == "send":
            scene.send(str(argument))
        else:
            scene.arrive()
    while scene.ledger.waiting:
        scene.send("ok")
    while scene.late:
        scene.arrive()
    assert scene.row.log == [b"%d" % n for n in range(scene.queued)]
    assert scene.told == {n: n + 1 for n in range(scene.queued)}


def entry(body: bytes = b"", done: object = None, **extras: object) -> Entry:
    commit = NewCommit("kind", None, 0, body, True)
    end = LastWord(RunState.SUCCEEDED, "", "") if extras.get("last") else None
    return Entry(commit, TotalsRow(), end, 0.0, done or (lambda _: None))  # type: ignore[arg-type]


def test_a_group_is_bounded_in_rows_and_bytes_and_closed_by_a_last_commit() -> None:
    ledger = Ledger(lambda: UUID(int=1))
    ledger.waiting = [entry() for _ in range(MAX_ROWS + 1)]
    assert len(ledger.take()) == MAX_ROWS
    ledger.waiting = [entry(bytes(MAX_BYTES + 1)), entry()]
    assert len(ledger.take()) == 1
    ledger.waiting = [entry(bytes(MAX_BYTES // 2)) for _ in range(3)]
    assert len(ledger.take()) == 2
    ledger.waiting = [entry(), entry(last=True), entry()]
    assert len(ledger.take()) == 2


ROW = {"ok": False, "known": True, "fence": 1, "seq": 5, "state": "Active", "write_id": None}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"fence": None, "known": False}, StoreRegressed),
        ({"fence": 2}, Fenced),
        ({"fence": 2, "known": False, "seq": None}, Fenced),
        ({"fence": 2, "write_id": UUID(int=7)}, Verdict.LANDED),
        ({"seq": 9, "write_id": UUID(int=7)}, Verdict.LANDED),
        ({"state": "Suspended", "write_id": UUID(int=7)}, Verdict.LANDED),
        ({"fence": 0}, StoreRegressed),
        ({"known": False, "seq": None}, StoreRegressed),
        ({"seq": 4}, StoreRegressed),
        ({"seq": 4, "state": "Suspended"}, StoreRegressed),
        ({"state": "Suspended"}, StoreRefused),
        ({"seq": 6}, Fenced),
        ({}, Verdict.AGAIN),
    ],
    ids=str,
)
def test_what_an_answer_means(row: dict[str, object], expected: object) -> None:
    ledger = Ledger(lambda: UUID(int=7), seq=5)
    ledger.waiting.append(entry())
    ledger.send(ledger.take())
    answer = Answer(*{**ROW, **row}.values(), *(None,) * 7)  # type: ignore[arg-type]
    verdict = judge(HOLD, ledger, answer)
    assert verdict is expected or type(verdict) is expected


def failure(state: str | None) -> psycopg.Error:
    if state is None:
        return psycopg.OperationalError("connection refused")
    error = psycopg.errors.lookup(state)("") if not state.startswith("AR") else psycopg.Error()
    error.sqlstate = state  # type: ignore[misc]
    return error


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (None, StoreUnavailable),
        ("08006", StoreUnavailable),
        ("40001", StoreUnavailable),
        ("40P01", StoreUnavailable),
        ("53100", StoreUnavailable),
        ("53300", StoreUnavailable),
        ("55P03", StoreUnavailable),
        ("57014", StoreUnavailable),
        ("57P01", StoreUnavailable),
        ("58030", StoreUnavailable),
        ("25006", StoreUnavailable),
        ("42883", SchemaMismatch),
        ("3F000", SchemaMismatch),
        ("42P01", SchemaMismatch),
        ("AR001", Fenced),
        ("AR002", StoreRegressed),
        ("AR003", StoreRefused),
        ("AR004", StoreRefused),
        ("22021", StoreRefused),
        ("23505", StoreRefused),
        ("42501", StoreRefused),
        ("XX000", StoreRefused),
    ],
)
def test_every_failure_has_one_meaning(state: str | None, kind: type[StoreError]) -> None:
    told = translate(failure(state), "append", "run x")
    assert type(told) is kind
    assert told.retryable is (kind is StoreUnavailable)
    assert str(told).startswith("append (run x)")


def test_what_is_not_from_postgres_is_refused_unless_it_is_the_network() -> None:
    assert is_outage(ConnectionResetError())
    assert is_outage(psycopg.InterfaceError("the connection is closed"))
    assert is_outage(psycopg.InternalError("got no result from the query"))
    assert not is_outage(psycopg.DataError("no NUL in text"))
    assert not is_outage(ValueError())
    told = translate(UnicodeEncodeError("utf-8", "secret", 0, 1, "surrogate"), "append", "run x")
    assert type(told) is StoreRefused
    assert "secret" not in str(told)
    kept = Fenced("as it was")
    assert translate(kept, "append", "run x") is kept


def test_a_hold_does_not_show_its_secret() -> None:
    assert "secret" not in repr(HOLD)
    assert "secret" not in str(HOLD)


@pytest.mark.parametrize("file", ["runner.sql", "operator.sql"])
def test_statements_are_loaded_by_name_without_their_comments(file: str) -> None:
    statements = load(file)
    assert statements
    for name, text in statements.items():
        assert name.isidentifier()
        assert text.startswith("SELECT")
        assert "--" not in text
        assert ";" not in text
