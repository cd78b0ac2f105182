"""The record as people read it: exported, loaded, verified, told as a transcript."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.run.pure_runner import UID, PureRunner, asks, make_spec, says, text

from agentrun.errors import UsageError
from agentrun.run import chain, codec
from agentrun.run.capture import Resolved, capture
from agentrun.run.fold import OPERATOR, RUNNER
from agentrun.run.identity import CallId, decision_ref, result_ref
from agentrun.run.log import Commit, Log, LoggedCommit, blob_names, dump, load
from agentrun.run.records import (
    ApprovalDecision,
    ApprovalRequest,
    AttemptStart,
    FileChange,
    LlmRequest,
    Record,
    RunEnd,
    TaskStatus,
    ToolResult,
    UserMessage,
)
from agentrun.run.transcript import entries, plain
from agentrun.run.values import ToolAnswer
from agentrun.run.verify import Verdict, verify


def logged(runner: PureRunner) -> Log:
    """The commits as rows, chained, with the references the runner gives them."""
    taken = capture(runner.spec, Resolved())
    previous, rows, blobs = chain.genesis(UID), [], {}
    fence = 0
    for seq, (origin, encoded) in enumerate(runner.commits, start=1):
        first, *rest = codec.decode(encoded.codec, encoded.body, encoded.blobs)
        fence += any(isinstance(record, AttemptStart) for record in (first, *rest))
        ref = None
        if isinstance(first, ToolResult):
            ref = result_ref(CallId.parse(first.call))
        elif isinstance(first, ApprovalDecision):
            ref = decision_ref(first.id)
        previous = chain.link(previous, seq, origin, "kind", ref, encoded.codec, encoded.body)
        rows.append(
            LoggedCommit(
                seq, origin, fence, fence, "kind", ref, encoded.codec, previous, encoded.body
            )
        )
        blobs.update(encoded.blobs)
    return Log(UID, "default", "demo", taken.spec, taken.spec_hash, tuple(rows), blobs)


def finished() -> Log:
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("look", "fix", turn=1) if turn == 1 else text("all well")
    )
    runner.tool = lambda call: says(
        f"did {call.tool} " + "z" * (300_000 if call.tool == "fix" else 1)
    )
    runner.attempt()
    while runner.state.totals.tool_calls < 1:
        runner.do(runner.steps()[0])
    runner.crash().run()
    return logged(runner)


def test_a_sound_record_verifies_and_every_request_is_reproduced() -> None:
    report = verify(finished())
    assert report.findings == ()
    assert report.verdict is Verdict.OK
    assert (report.requests, report.results) == (2, 2)


def test_an_export_is_the_record() -> None:
    log = finished()
    again = load(dump(log))
    assert again == log
    assert dump(again) == dump(log)


def change(log: Log, seq: int, **fields: object) -> Log:
    rows = [
        dataclasses.replace(row, **fields) if row.seq == seq else row  # type: ignore[type-var]
        for row in log.commits
    ]
    return dataclasses.replace(log, commits=tuple(rows))


@pytest.mark.parametrize("seq", range(1, 11))
def test_any_altered_byte_is_found(seq: int) -> None:
    log = finished()
    body = bytearray(log.commits[seq - 1].body)
    body[len(body) // 2] ^= 1
    assert verify(change(log, seq, body=bytes(body))).verdict is Verdict.FAILURE


@pytest.mark.parametrize(
    "damage",
    [
        "dropped",
        "swapped",
        "cut start",
        "origin",
        "spec",
        "blob",
        "missing blob",
        "ref",
        "uid",
        "fence",
    ],
)
def test_damage_is_found(damage: str) -> None:
    log = finished()
    rows = list(log.commits)
    if damage == "dropped":
        del rows[4]
    elif damage == "swapped":
        rows[4], rows[5] = rows[5], rows[4]
    elif damage == "cut start":
        del rows[0]
    log = dataclasses.replace(log, commits=tuple(rows))
    if damage == "origin":
        log = change(log, 4, origin=OPERATOR)
    elif damage == "spec":
        log = dataclasses.replace(log, spec=log.spec.replace(b'"go"', b'"no"'))
    elif damage == "blob":
        log = dataclasses.replace(
            log, blobs={name: b"x" + data for name, data in log.blobs.items()}
        )
    elif damage == "missing blob":
        log = dataclasses.replace(log, blobs={})
    elif damage == "ref":
        row = next(row for row in log.commits if row.ref)
        log = change(log, row.seq, ref="result:main/1/9/9")
    elif damage == "uid":
        log = dataclasses.replace(log, run_uid="another")
    elif damage == "fence":
        log = change(log, 9, fence=1)
    assert verify(log).verdict is Verdict.FAILURE


def test_a_cut_tail_is_still_a_sound_prefix() -> None:
    log = finished()
    assert verify(dataclasses.replace(log, commits=log.commits[:-3])).verdict is Verdict.OK


def test_an_empty_record_is_inconclusive() -> None:
    assert verify(dataclasses.replace(finished(), commits=())).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"format":"other","version":1}',
        b"[" * 50_000,
    ],
)
def test_a_file_that_is_no_export_is_refused_with_advice(data: bytes) -> None:
    with pytest.raises(UsageError, match="agentrun export"):
        load(data)


ODD = [None, [], {}, "x", "%%%", -1, 1e400, "0" * 64, {"seq": 1}]


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document with every key of it."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(items):
        yield document, key
        if isinstance(value, dict | list):
            yield from places(value)


def test_a_damaged_export_is_refused_or_does_not_verify_and_nothing_breaks() -> None:
    whole = json.loads(dump(finished()))
    for at, (holder, key) in enumerate(places(whole)):
        kept = holder[key]
        for odd in ODD[at % 3 :: 3]:
            holder[key] = odd
            try:
                log = load(json.dumps(whole).encode())
            except UsageError:
                continue
            verify(log)
        holder[key] = kept
    assert verify(load(json.dumps(whole).encode())).verdict is Verdict.OK


def test_broken_base64_is_refused() -> None:
    document = json.loads(dump(finished()))
    document["commits"][0]["body"] = "%%%"
    with pytest.raises(UsageError):
        load(json.dumps(document).encode())


def test_the_transcript_tells_the_run_in_order() -> None:
    told = [(entry.who, entry.title) for entry in entries(finished())]
    assert told[0] == ("run", "")
    assert (
        told.index(("user", "")) < told.index(("assistant", "")) < told.index(("call", "ops.look"))
    )
    assert ("result", "main/1/1/0") in told
    assert [
        text for text in (entry.text for entry in entries(finished())) if "continued from" in text
    ]


def test_plain_text_names_what_is_not_text() -> None:
    assert plain([{"type": "text", "text": "a"}, {"type": "image"}]) == "a\n[image]"
    assert plain("x") == "x"
    assert plain(None) == ""


def test_every_kind_of_note_is_told() -> None:
    runner = PureRunner(
        make_spec(toolPolicies=[{"tools": ["ops.*"], "approval": "Always"}]),
        lambda turn, _: asks("fix", turn=1),
    )
    runner.attempt().run()
    runner.decide(runner.questions[0], "Deny", "no")
    runner.commit(OPERATOR, [RunEnd(outcome="Cancelled", reason="CancelledByUser")])
    notes = "\n".join(entry.text for entry in entries(logged(runner)) if entry.who == "run")
    for expected in (
        "attempt 1 started",
        "asked about main/1/1/0",
        "suspended: ApprovalPending",
        "Deny by ann",
        "Cancelled",
    ):
        assert expected in notes


def gated() -> PureRunner:
    runner = PureRunner(
        make_spec(toolPolicies=[{"tools": ["ops.*"], "approval": "Always"}]),
        lambda turn, _: asks("fix", turn=1) if turn == 1 else text("done"),
    )
    runner.attempt().run()
    runner.decide(runner.questions[0], "Approve")
    return runner.crash().run()


def kind_of(row: Commit) -> str:
    return "/".join(sorted({type(r).__name__ for r in codec.decode(row.codec, row.body, {})}))


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("ApprovalDecision", "decision"),
        ("ToolResult", "result"),
        ("ApprovalRequest", "question about"),
    ],
)
def test_what_does_not_name_what_it_is_about_is_found(kind: str, wrong: str) -> None:
    log = logged(gated())
    row = next(row for row in log.commits if kind_of(row) == kind)
    if kind == "ApprovalRequest":
        (record,) = codec.decode(row.codec, row.body, {})
        forged = codec.encode([record.model_copy(update={"content_hash": "0" * 64})])
        log = change(log, row.seq, body=forged.body)
    else:
        log = change(log, row.seq, ref="result:main/9/9/9")
    found = [f for f in verify(log).findings if f.check == "reference"]
    assert len(found) == 1
    assert wrong in found[0].message


def test_a_gated_run_verifies() -> None:
    assert verify(logged(gated())).findings == ()


def test_an_export_has_the_contents_of_workspace_files() -> None:
    """Else `agentrun export` would write a file from which nothing can be restored."""
    changes = (FileChange(path="a", sha256="1" * 64, size=1),)
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("fix", turn=1) if turn == 1 else text("done")
    )
    runner.tool = lambda call: ToolAnswer(
        [{"type": "text", "text": "w" * 300_000}], False, 1, changes
    )
    log = logged(runner.attempt().run())
    assert set(blob_names(log.commits)) == {*log.blobs, "1" * 64}


@pytest.mark.parametrize(
    "records",
    [
        [LlmRequest(conversation="x", turn=1, model="m", request_hash="", system_hash="", tools_hash="")],
        [TaskStatus(task="main", agent="nobody", try_=1, status="in_progress"),
         UserMessage(conversation="main", origin="input", content=[]),
         LlmRequest(conversation="main", turn=1, model="m", request_hash="", system_hash="", tools_hash="")],
        [TaskStatus(task="main", agent="nobody", try_=1, status="in_progress"),
         UserMessage(conversation="main", origin="input", content=[])],
        [UserMessage(conversation="main", origin="input", content=5)],
        [ApprovalRequest(id="x", scope="Tool", boundary="main/1/1/0", ordinal=1, content_hash="")],
    ],
)  # fmt: skip
def test_verify_never_raises_for_what_is_wrong(records: list[Record]) -> None:
    runner = PureRunner(make_spec(), lambda turn, _: text("done")).attempt()
    runner.commits.append((RUNNER, codec.encode(records)))
    request = LlmRequest(
        conversation="main", turn=1, model="m", request_hash="", system_hash="", tools_hash=""
    )
    runner.commits.append((RUNNER, codec.encode([request])))
    assert verify(logged(runner)).verdict is Verdict.FAILURE
