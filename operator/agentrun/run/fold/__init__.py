"""``fold``: records to state. Deterministic, and total over what ``append`` can have written.

Whatever does not fit raises CheckpointCorrupt; nothing is guessed, skipped or repaired. One module
per topic holds what each record type does to the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agentrun.run import conversation
from agentrun.run.fold import approvals, lifecycle, messages, tools
from agentrun.run.fold.refuse import corrupt
from agentrun.run.records import OPERATOR_OWNED, Record
from agentrun.run.state import ConversationPhase, State

_APPLY: dict[type[Record], Callable[[State, Any], None]] = {
    **lifecycle.APPLY,
    **messages.APPLY,
    **tools.APPLY,
    **approvals.APPLY,
}

OPERATOR, RUNNER = "O", "R"


def fold(state: State, origin: str, records: Iterable[Record]) -> State:
    """``state`` after one commit (changed in place and returned).

    ``origin`` is the commit's: only the operator's commits may hold operator-owned types (H47),
    whatever a runner image claims.
    """
    for record in records:
        kind: str = getattr(record, "type", "")
        if (kind in OPERATOR_OWNED or kind == "") and origin != OPERATOR:
            raise corrupt(f"record {kind!r} in a commit of the runner")
        if state.outcome is not None:
            raise corrupt(f"record {kind!r} after the outcome")
        apply = _APPLY.get(type(record))
        if apply is None:
            raise corrupt(f"no rule for record {kind!r}")
        apply(state, record)
    messages.check_commit(state)
    return state


def fold_all(commits: Iterable[tuple[str, Sequence[Record]]], state: State | None = None) -> State:
    """The state of a whole record, or of a tail on top of a snapshot's ``state``."""
    state = state or State()
    for origin, records in commits:
        fold(state, origin, records)
    return state


def check(state: State) -> State:
    """Every conversation is one the model's API accepts; CheckpointCorrupt otherwise."""
    for talk in state.conversations.values():
        conversation.check(
            talk.messages, talk.path, open_round=talk.phase is ConversationPhase.EXECUTING_TOOLS
        )
    return state


__all__ = ["OPERATOR", "RUNNER", "check", "fold", "fold_all"]
