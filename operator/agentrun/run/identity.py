"""Names of things inside a run that must be the same in every attempt.

A call is identified by its position (conversation path, try, turn, index), never by the model's
own id: gateways, retries and delegates repeat those (H5). Keys given to tools hold the run's UID,
so that two namespaces or a re-created run can never be taken for each other (H6).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

MAIN_TASK = "main"
"""The one task that a ``prompt`` is."""


@dataclass(frozen=True, slots=True, order=True)
class CallId:
    """Position of a tool call: ``path/try/turn/index``, turn from 1, index from 0."""

    path: str
    try_: int
    turn: int
    index: int

    def __str__(self) -> str:
        return f"{self.path}/{self.try_}/{self.turn}/{self.index}"

    @classmethod
    def parse(cls, text: str) -> CallId:
        """Inverse of ``str``; ValueError for any other text. A call has one spelling only, because
        the spelling is what the database keeps unique."""
        path, try_, turn, index = text.rsplit("/", 3)
        call = cls(path, int(try_), int(turn), int(index))
        if not path or str(call) != text:
            raise ValueError(f"not a call identity: {text!r}")
        return call


def task_of_path(path: str) -> str:
    """The task that a conversation belongs to: ``task``, or ``task/delegate…``."""
    return path.split("/", 1)[0]


def call_key(run_uid: str, call: CallId) -> str:
    """The idempotency key given to tools: at most 80 ASCII characters, equal on every re-run."""
    digest = hashlib.sha256(f"{run_uid}\n{call}".encode()).hexdigest()
    return f"ar-{digest}"


def approval_request_id(run_uid: str, scope: str, boundary: str, ordinal: int) -> str:
    """Identity of one question to a person: ``apr-`` and 32 hex digits.

    ``ordinal`` is 1 for the first question about a boundary; a second question about the same call
    is another request with its own decision (H67).
    """
    text = "\n".join((run_uid, scope, boundary, str(ordinal)))
    return f"apr-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def result_ref(call: CallId) -> str:
    """``commit.ref`` of a call's result: unique per run in the database itself."""
    return f"result:{call}"


def decision_ref(request_id: str) -> str:
    """``commit.ref`` of a consumed decision: unique per run in the database itself."""
    return f"decision:{request_id}"
