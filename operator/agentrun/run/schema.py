"""Whether the arguments of a call fit the schema that its server gave: quick, local and lenient.

The server judges its own arguments. This check tells the model early what plainly does not fit, and
keeps a call that was reviewed from running under another schema. So a schema that is broken, endless
or refers to something elsewhere checks nothing. Nothing is fetched, and nothing takes long, whatever
the server wrote: rules are counted, and patterns are matched by an engine that is linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from agentrun.run.exact import exact_json
from agentrun.run.records import Json

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

SCHEMA_MAX = 64 * 1024
"""Bytes of a schema that is looked at."""
STEPS, STEP_SIZE = 20_000, 4096
"""Rules applied before a schema counts as endless, to arguments of up to so many bytes; fewer to
larger ones, because a rule may look at all of them."""
ERRORS_MAX = 20
"""Errors of which the most telling one is chosen."""
PATTERN_TEXT_MAX = 64 * 1024
UNIQUE_MAX = 200
"""Items that are compared each with each."""
MESSAGE_MAX = 300

Rule = Callable[[Any, Any, Any, Any], Any]


def schema_problem(schema: Json, arguments: Json) -> str | None:
    """A way in which the arguments break the schema, or None."""
    if not isinstance(arguments, dict):
        return "they are not an object"
    return _problem(_Same(schema), _Same(arguments)) if isinstance(schema, dict) else None


class _Same:
    """A value by its identity, for caches: what is asked at every step is worked out once. Content is
    never changed in place, and the cache keeps it, so that an identity is one value."""

    __slots__ = ("value",)

    def __init__(self, value: Json) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


class _Endless(Exception):
    """More rules were applied than any real schema needs."""


_steps: ContextVar[list[int]] = ContextVar("steps left")


@lru_cache(maxsize=256)
def _problem(schema: _Same, arguments: _Same) -> str | None:
    from jsonschema.exceptions import best_match

    validator = _validator(schema)
    if validator is None:
        return None
    left = [STEPS]
    before = _steps.set(left)
    try:
        left[0] = STEPS * STEP_SIZE // max(len(exact_json(arguments.value)), STEP_SIZE)
        error = best_match(islice(validator.iter_errors(arguments.value), ERRORS_MAX))
    except Exception:  # noqa: BLE001 - the schema is a server's; what breaks on it is not the call
        return None
    finally:
        _steps.reset(before)
    if error is None:
        return None
    where = "/".join(str(part) for part in error.absolute_path)
    return f"{where or 'arguments'}: {_short(error.message)} ({error.validator})"


@lru_cache(maxsize=128)
def _validator(schema: _Same) -> Validator | None:
    """None for a schema that checks nothing.

    The library goes back to its own, unbounded rules wherever it meets a ``$schema``: it is taken
    off, and a schema with another one inside is not looked at.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    bare = _without_draft(schema.value)
    before = _steps.set([STEPS])
    try:
        text = exact_json(bare)
        if len(text) > SCHEMA_MAX or b'"$schema"' in text:
            return None
        draft = validator_for(schema.value, default=Draft202012Validator)
        bounded = _bounded(draft)
        if not bounded(_without_draft(draft.META_SCHEMA)).is_valid(bare):
            return None
        found: Validator = bounded(bare, registry=Registry())
    except Exception:  # noqa: BLE001 - see above
        return None
    finally:
        _steps.reset(before)
    return found


def _without_draft(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in schema.items() if key != "$schema"}


def _short(message: str) -> str:
    """A message that quotes a long value says why at its end."""
    half = MESSAGE_MAX // 2
    return message if len(message) <= MESSAGE_MAX else f"{message[:half]} … {message[-half:]}"


@cache
def _bounded(draft: type[Validator]) -> Any:
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
        left = _steps.get()
        left[0] -= 1
        if left[0] < 0:
            raise _Endless
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
