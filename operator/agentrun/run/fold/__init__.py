"""``fold``: records to state. Deterministic, and total over what ``append`` can have written.

Whatever does not fit raises CheckpointCorrupt; nothing is guessed, skipped or repaired. One module
per topic holds what each record type does to the state. A state that refused a commit is half
changed and must be thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agentrun.run.conversation import check as check_conversation
from agentrun.run.fold import approvals, lifecycle, messages, tools
from agentrun.run.fold.refuse import corrupt
from agentrun.run.records import OPERATOR_OWNED, Record
from agentrun.run.state import ConversationPhase, State

Rule = Callable[[State, Any], None]
Whole = Callable[[State, str], None]

_APPLY: dict[type[Record], Rule] = {
    **lifecycle.APPLY,
    **messages.APPLY,
    **tools.APPLY,
    **approvals.APPLY,
}
_WHOLE: dict[type[Record], tuple[str, Whole]] = {**lifecycle.WHOLE, **messages.WHOLE}
"""What must hold, about what a field names, once the commit that a record is in has been folded."""
_OWNED = frozenset(kind for kind in _APPLY if kind.model_fields["type"].default in OPERATOR_OWNED)

OPERATOR, RUNNER = "O", "R"


def fold(state: State, origin: str, records: Iterable[Record]) -> State:
    """``state`` after one commit (changed in place and returned).

    ``origin`` is the commit's: only the operator's commits may hold operator-owned types, whatever
    a runner image claims (H47), and nothing but the operator's follows a suspension or an outcome.
    """
    checks: dict[tuple[str, Whole], None] = {}
    for record in records:
        kind = type(record)
        apply = _APPLY.get(kind)
        if apply is None:
            raise corrupt(f"no rule for {kind.__name__}")
        if origin != OPERATOR and kind in _OWNED:
            raise corrupt(f"{kind.__name__} in a commit of the runner")
        if origin != OPERATOR and state.suspended is not None:
            raise corrupt(f"{kind.__name__} of the runner after the suspension")
        if state.outcome is not None:
            raise corrupt(f"{kind.__name__} after the outcome")
        apply(state, record)
        whole = _WHOLE.get(kind)
        if whole is not None:
            checks[getattr(record, whole[0]), whole[1]] = None
    for name, holds in checks:
        holds(state, name)
    return state


def fold_all(commits: Iterable[tuple[str, Sequence[Record]]], state: State | None = None) -> State:
    """The state of a whole record, or of a tail on top of a snapshot's ``state``."""
    state = state or State()
    for origin, records in commits:
        fold(state, origin, records)
    return state


def check(state: State) -> State:
    """Every conversation is one the model's API accepts; CheckpointCorrupt otherwise."""
    for conversation in state.conversations.values():
        check_conversation(
            conversation.messages,
            conversation.path,
            open_round=conversation.phase is ConversationPhase.EXECUTING_TOOLS,
        )
    return state


__all__ = ["OPERATOR", "RUNNER", "check", "fold", "fold_all"]
