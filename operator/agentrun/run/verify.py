"""Whether a record can be trusted: order, chain, references, conversations, reproducibility."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agentrun.api import AgentRunSpec
from agentrun.errors import CheckpointCorrupt, CheckpointNewer
from agentrun.run import chain
from agentrun.run.approvals import question_about
from agentrun.run.capture import captured_spec
from agentrun.run.codec import decode
from agentrun.run.exact import sha256_hex
from agentrun.run.fold import check, fold
from agentrun.run.fold.refuse import open_call
from agentrun.run.identity import decision_ref
from agentrun.run.log import Commit, Log
from agentrun.run.records import (
    ApprovalDecision,
    ApprovalRequest,
    LlmRequest,
    Record,
    RunStart,
    ToolResult,
)
from agentrun.run.request import build_request
from agentrun.run.state import State


class Verdict(StrEnum):
    """Ok, or what is wrong; Inconclusive when something needed for a check is not there."""

    OK = "ok"
    FAILURE = "failure"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold. ``seq`` 0 is the record as a whole."""

    verdict: Verdict
    seq: int
    check: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked and what was found."""

    commits: int
    requests: int
    results: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst finding."""
        verdicts = {finding.verdict for finding in self.findings}
        for verdict in (Verdict.FAILURE, Verdict.INCONCLUSIVE):
            if verdict in verdicts:
                return verdict
        return Verdict.OK


class _Audit:
    """One pass over a record; stops folding at the first commit that does not fit."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.state: State | None = State()
        self.findings: list[Finding] = []
        self.requests = self.results = 0
        self.previous = chain.genesis(log.run_uid)
        self.fence = self.seq = 0
        self.spec: AgentRunSpec | None = None

    def find(self, verdict: Verdict, seq: int, name: str, message: str) -> None:
        self.findings.append(Finding(verdict, seq, name, message))

    def begin(self) -> None:
        try:
            self.spec = captured_spec(self.log.spec, self.log.spec_hash)
        except CheckpointCorrupt as error:
            self.find(Verdict.FAILURE, 0, "spec", error.message)
        except CheckpointNewer as error:
            self.find(Verdict.INCONCLUSIVE, 0, "spec", error.message)
        for name, data in self.log.blobs.items():
            if sha256_hex(data) != name:
                self.find(Verdict.FAILURE, 0, "blob", f"blob {name[:12]} does not match its name")

    def commit(self, commit: Commit) -> None:
        if commit.seq != self.seq + 1:
            self.find(Verdict.FAILURE, commit.seq, "order", f"follows commit {self.seq}")
        if commit.fence < self.fence:
            self.find(Verdict.FAILURE, commit.seq, "fence", f"{commit.fence} after {self.fence}")
        expected = chain.link(
            self.previous,
            commit.seq,
            commit.origin,
            commit.kind,
            commit.ref,
            commit.codec,
            commit.body,
        )
        if expected != commit.chain:
            self.find(Verdict.FAILURE, commit.seq, "chain", "the hash does not match")
        self.previous, self.seq, self.fence = commit.chain, commit.seq, commit.fence
        self._fold(commit)

    def _fold(self, commit: Commit) -> None:
        if self.state is None:
            return
        try:
            records = decode(commit.codec, commit.body, self.log.blobs)
            self._references(commit, records, self.state)
            self._requests(commit, records, self.state)
            fold(self.state, commit.origin, records)
            check(self.state)
        except CheckpointCorrupt as error:
            self.find(Verdict.FAILURE, commit.seq, "fold", error.message)
            self.state = None
        except CheckpointNewer as error:
            self.find(Verdict.INCONCLUSIVE, commit.seq, "fold", error.message)
            self.state = None

    def _references(self, commit: Commit, records: tuple[Record, ...], before: State) -> None:
        for record in records:
            self.results += isinstance(record, ToolResult)
            wrong = self._wrong_reference(commit.ref, record, before)
            if wrong is not None:
                self.find(Verdict.FAILURE, commit.seq, "reference", wrong)

    def _wrong_reference(self, ref: str | None, record: Record, before: State) -> str | None:
        """The row's unique reference names what the record is about, and hashes are of what is
        there."""
        match record:
            case ToolResult():
                return None if ref == f"result:{record.call}" else f"result {record.call}"
            case ApprovalDecision():
                return None if ref == decision_ref(record.id) else f"decision {record.id}"
            case ApprovalRequest():
                call = open_call(before, record.boundary)
                agent = before.conversations[call.id.path].agent
                asked = question_about(before.run_uid, agent, call, record.ordinal, record.reason)
                fits = (asked.id, asked.content_hash) == (record.id, record.content_hash)
                return None if fits else f"question about {record.boundary}"
            case RunStart():
                return None if record.run_uid == self.log.run_uid else "another run's UID"
        return None

    def _requests(self, commit: Commit, records: tuple[Record, ...], before: State) -> None:
        for record in records:
            if isinstance(record, LlmRequest) and self.spec is not None:
                self.requests += 1
                rebuilt = build_request(before, self.spec, record.conversation, record.notices)
                if rebuilt.request_hash != record.request_hash:
                    self.find(
                        Verdict.INCONCLUSIVE,
                        commit.seq,
                        "reproducibility",
                        f"request of turn {record.turn} is built differently by this release",
                    )


def verify(log: Log) -> Report:
    """Check a whole record. Never raises for what is wrong with it."""
    audit = _Audit(log)
    audit.begin()
    if not log.commits:
        audit.find(Verdict.INCONCLUSIVE, 0, "order", "there are no commits")
    for commit in log.commits:
        audit.commit(commit)
    return Report(len(log.commits), audit.requests, audit.results, tuple(audit.findings))
