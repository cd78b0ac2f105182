"""How an attempt ends: exit codes, and the line that tells the operator why.

Codes and the line are hints; the run's row is the truth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from agentrun.api import Reason
from agentrun.errors import (
    CheckpointCorrupt,
    CheckpointNewer,
    Fenced,
    InvalidSpec,
    SchemaMismatch,
    StoreRefused,
    StoreRegressed,
    StoreUnavailable,
    UsageError,
)

TERMINATION_LOG = "/dev/termination-log"
MESSAGE_MAX = 1024
"""Kubernetes cuts termination messages; one line stays whole."""


class Exit(IntEnum):
    """What the process exits with."""

    DONE = 0
    """Finished, cancelled or suspended, and committed as such."""
    FAILED = 1
    """The run failed, or this program did."""
    RETRY = 75
    """Another attempt may succeed."""
    CONFIG = 78
    """Another attempt would end the same."""
    FENCED = 79
    """Another attempt owns the run."""
    DRAINED = 143
    """Stopped after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an attempt. ``reason`` is a status reason, empty when the row says it all."""

    code: Exit
    reason: str = ""
    message: str = ""


_ENDINGS: tuple[tuple[type[Exception], Exit, str], ...] = (
    (Fenced, Exit.FENCED, ""),
    (CheckpointNewer, Exit.RETRY, Reason.CHECKPOINT_NEWER),
    (CheckpointCorrupt, Exit.CONFIG, Reason.CHECKPOINT_CORRUPT),
    (StoreRegressed, Exit.RETRY, Reason.STORE_REGRESSED),
    (StoreUnavailable, Exit.RETRY, Reason.STORE_UNAVAILABLE),
    (SchemaMismatch, Exit.RETRY, Reason.STORE_UNAVAILABLE),
    (StoreRefused, Exit.FAILED, Reason.SAVE_FAILED),
    (InvalidSpec, Exit.CONFIG, Reason.INVALID_SPEC),
    (UsageError, Exit.CONFIG, Reason.BAD_CONFIGURATION),
)
"""First match. A schema that does not fit is a rollout under way, not the run's fault."""


def ending_of(error: Exception) -> Ending:
    """The end that an error is; one that nobody foresaw is this program's failure."""
    for kind, code, reason in _ENDINGS:
        if isinstance(error, kind):
            return Ending(code, reason, str(error))
    return Ending(Exit.FAILED, Reason.AGENT_FAILED, type(error).__name__)


def write_termination(path: str, ending: Ending) -> None:
    """Leave the reason where the kubelet (or the local adapter) picks it up, if it can be written.

    The kubelet makes its own file; outside of a pod none appears in ``/dev``.
    """
    if not path or not ending.reason or ending.code is Exit.DONE:
        return
    if path == TERMINATION_LOG and not Path(path).exists():
        return
    text = json.dumps({"reason": ending.reason, "message": ending.message[:MESSAGE_MAX]})
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError:
        return
