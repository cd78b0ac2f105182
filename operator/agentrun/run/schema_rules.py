"""The JSON Schema library with bounds: every rule counted, every pattern linear in the text.

A schema of a few hundred bytes can stand for more work than there is time (references that double,
patterns that backtrack, items compared each with each). What cannot be bounded is left out: then
less is checked, never more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

STEPS = 20_000
"""Rules applied before a schema counts as endless."""
PATTERN_TEXT_MAX = 64 * 1024
UNIQUE_MAX = 200
"""Items that are compared each with each."""

Rule = Callable[[Any, Any, Any, Any], Any]
_left: ContextVar[list[int]] = ContextVar("steps left")


class Endless(Exception):
    """More rules were applied than any real schema needs."""


@contextmanager
def steps(count: int) -> Iterator[None]:
    """Let so many rules be applied inside."""
    before = _left.set([count])
    try:
        yield
    finally:
        _left.reset(before)


@cache
def bounded(draft: type[Validator]) -> Any:
    """The draft with every rule counted, and without those that cannot be bounded."""
    from jsonschema.validators import extend

    rules = {
        **draft.VALIDATORS,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _few_items(draft.VALIDATORS["uniqueItems"]),
    }
    return extend(  # type: ignore[no-untyped-call]
        draft,
        {
            name: _nothing if name.startswith("unevaluated") else _counted(rule)
            for name, rule in rules.items()
        },
    )


def _counted(rule: Rule) -> Rule:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        left = _left.get()
        left[0] -= 1
        if left[0] < 0:
            raise Endless
        return rule(validator, value, instance, schema)

    return counted


def _few_items(rule: Rule) -> Rule:
    def few_items(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        if isinstance(instance, list) and len(instance) > UNIQUE_MAX:
            return None
        return rule(validator, value, instance, schema)

    return few_items


def _nothing(validator: Any, value: Any, instance: Any, schema: Any) -> None:
    return None


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and _found(pattern, instance) is False:
        yield _error(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Any], instance: Any, schema: Any
) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _found(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Keys that a pattern might cover are not called additional."""
    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extra = [
        key
        for key in instance
        if key not in named and all(_found(pattern, key) is False for pattern in patterns)
    ]
    if isinstance(rule, dict):
        for key in extra:
            yield from validator.descend(instance[key], rule, path=key)
    elif rule is False and extra:
        yield _error(f"there is no property {', '.join(map(repr, extra))}")


def _error(message: str) -> Exception:
    from jsonschema.exceptions import ValidationError as Broken

    return Broken(message)


def _found(pattern: str, text: str) -> bool | None:
    """Whether the pattern is found in the text; None if that cannot be told."""
    search = _search(pattern)
    if search is None or len(text) > PATTERN_TEXT_MAX:
        return None
    try:
        search.validate_python(text)
    except ValidationError as error:
        return False if error.errors()[0]["type"] == "string_pattern_mismatch" else None
    return True


@lru_cache(maxsize=256)
def _search(pattern: str) -> TypeAdapter[str] | None:
    """Pydantic's pattern engine takes time linear in the text, and refuses what would need more."""
    try:
        return TypeAdapter(Annotated[str, Field(pattern=pattern)])
    except SchemaError:
        return None
