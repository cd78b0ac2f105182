"""A run's whole record, read for people: decoded, verified, exported.

Works on rows of the database and on exported files alike.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentrun.errors import UsageError
from agentrun.run import codec
from agentrun.run.exact import exact_json, parse_json
from agentrun.run.records import Json, Record

FORMAT, VERSION = "agentrun/native", 1


class Commit(Protocol):
    """What a commit is, wherever it was read from."""

    @property
    def seq(self) -> int: ...
    @property
    def origin(self) -> str: ...
    @property
    def fence(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def ref(self) -> str | None: ...
    @property
    def codec(self) -> int: ...
    @property
    def chain(self) -> bytes: ...
    @property
    def body(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit from a file."""

    seq: int
    origin: str
    fence: int
    attempt: int
    kind: str
    ref: str | None
    codec: int
    chain: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Log:
    """Everything that is known about a run: enough to fold, verify and export it."""

    run_uid: str
    namespace: str
    name: str
    spec: bytes
    spec_hash: str
    commits: tuple[Commit, ...]
    blobs: Mapping[str, bytes]

    def decoded(self) -> Iterable[tuple[Commit, tuple[Record, ...]]]:
        """Commits with their records, in order; CheckpointCorrupt where one does not decode."""
        for commit in self.commits:
            yield commit, codec.decode(commit.codec, commit.body, self.blobs)


def blob_names(commits: Sequence[Commit]) -> tuple[str, ...]:
    """All blobs that the commits name, workspace files included, each once."""
    found: dict[str, None] = {}
    for commit in commits:
        found.update(dict.fromkeys(codec.blob_refs(commit.codec, commit.body)))
        found.update(dict.fromkeys(codec.file_refs(commit.codec, commit.body)))
    return tuple(found)


def dump(log: Log) -> bytes:
    """The record as one file, in the native format: nothing is lost, nothing is re-encoded."""
    document: Json = {
        "format": FORMAT,
        "version": VERSION,
        "run": {"uid": log.run_uid, "namespace": log.namespace, "name": log.name},
        "spec": {"hash": log.spec_hash, "body": _text(log.spec)},
        "commits": [
            {
                "seq": commit.seq,
                "origin": commit.origin,
                "fence": commit.fence,
                "attempt": commit.attempt,
                "kind": commit.kind,
                "ref": commit.ref,
                "codec": commit.codec,
                "chain": commit.chain.hex(),
                "body": _text(commit.body),
            }
            for commit in log.commits
        ],
        "blobs": {name: _text(data) for name, data in sorted(log.blobs.items())},
    }
    return exact_json(document) + b"\n"


def load(data: bytes) -> Log:
    """Inverse of :func:`dump`. UsageError for a file that is not an export."""
    try:
        document = parse_json(data)
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise ValueError(f"format {document['format']!r} {document['version']!r}")
        return Log(
            document["run"]["uid"],
            document["run"]["namespace"],
            document["run"]["name"],
            _bytes(document["spec"]["body"]),
            document["spec"]["hash"],
            tuple(_commit(item) for item in document["commits"]),
            {name: _bytes(text) for name, text in document["blobs"].items()},
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"not a native export ({type(error).__name__}: {error})",
            attempted="read an export",
            advice="Make one with: agentrun export NAME --format native",
        ) from None


def _commit(item: Json) -> LoggedCommit:
    return LoggedCommit(
        int(item["seq"]),
        str(item["origin"]),
        int(item["fence"]),
        int(item["attempt"]),
        str(item["kind"]),
        item["ref"],
        int(item["codec"]),
        bytes.fromhex(item["chain"]),
        _bytes(item["body"]),
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
