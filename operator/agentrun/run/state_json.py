"""State as JSON and back, for snapshots. Every field of the state's dataclasses is there."""

from __future__ import annotations

from pydantic import TypeAdapter

from agentrun.run.records import Json
from agentrun.run.state import State

_state: TypeAdapter[State] = TypeAdapter(State)


def state_to_json(state: State) -> Json:
    """Values that the exact encoder takes; a new field of the state appears here by itself."""
    return _state.dump_python(state, mode="python", by_alias=True)


def state_from_json(value: Json) -> State:
    """Inverse; ValueError (pydantic's) when it does not fit."""
    return _state.validate_python(value)
