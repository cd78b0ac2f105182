"""Where in a manifest a problem is, as a user would write it: ``spec.agents[0].maxTurns``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, get_args

from pydantic import BaseModel

from agentrun.api.spec import AgentRunSpec

Problems = Iterator[str]


NAME_SHOWN: Final = 64
"""Characters of one name that a message repeats; a user may have pasted anything as a key."""


def dotted(location: Iterable[str | int]) -> str:
    """A location as text: names joined by dots, positions in brackets."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if len(part) <= NAME_SHOWN else f"{part[:NAME_SHOWN]}…"
            text += f".{shown}" if text else shown
    return text


def wire_name(attribute: str) -> str:
    """How an attribute of the spec is spelled in a manifest."""
    return AgentRunSpec.model_fields[attribute].alias or attribute


def model_at(root: type[BaseModel], location: Iterable[str | int]) -> type[BaseModel] | None:
    """The model that a location lies in, or None where it leads out of the models."""
    current: type[BaseModel] | None = root
    for part in location:
        if current is None:
            return None
        if isinstance(part, int):
            continue
        field = next((f for f in current.model_fields.values() if f.alias == part), None)
        current = None if field is None else _model_in(field.annotation)
    return current


def duplicates(names: Iterable[str]) -> list[str]:
    """Names that occur more than once, in order of their first occurrence."""
    return [name for name, count in Counter(names).items() if count > 1]


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if found := _model_in(argument):
            return found
    return None
