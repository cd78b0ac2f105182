"""Records and state as JSON values, and the state back.

Written by hand because the content in them is opaque: it is handed on as it is, not copied, and
however deep it is nested (pydantic's own dump follows any value, to a depth of its own).
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from agentrun.run.records import Json, Record
from agentrun.run.state import State

_state: TypeAdapter[State] = TypeAdapter(State)


def record_to_json(record: Record) -> dict[str, Json]:
    """Fields at their defaults are left out; the type never is."""
    value: dict[str, Json] = {}
    for name, alias, default, opaque in _record_fields(type(record)):
        item = getattr(record, name)
        if name == "type" or item != default:
            value[alias] = item if opaque else _ours(item)
    return value


def state_to_json(state: State) -> Json:
    """Every field of the state; a new one appears here by itself."""
    return _ours(state)


def state_from_json(value: Json) -> State:
    """Inverse; ValueError (pydantic's) when it does not fit."""
    return _state.validate_python(value)


def _ours(value: object) -> Json:
    """A value of our own types, down to the opaque content in it."""
    if isinstance(value, Record):
        return record_to_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: getattr(value, name) if opaque else _ours(getattr(value, name))
            for name, opaque in _state_fields(type(value))
        }
    if isinstance(value, dict):
        return {key: _ours(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_ours(item) for item in value]
    return value


@cache
def _record_fields(kind: type[Record]) -> tuple[tuple[str, str, object, bool], ...]:
    return tuple(
        (name, field.alias or name, field.default, field.annotation is Any)
        for name, field in kind.model_fields.items()
    )


@cache
def _state_fields(kind: type) -> tuple[tuple[str, bool], ...]:
    """Names, and whether the annotation (a string here) says that the content is opaque."""
    return tuple((field.name, "Json" in str(field.type)) for field in fields(kind))
