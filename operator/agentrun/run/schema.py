"""Whether the arguments of a call fit the schema that its server gave: quick, local and lenient.

The server judges its own arguments. This check tells the model early what plainly does not fit, and
keeps a call that was reviewed from running under another schema. So a schema that is broken, endless
or refers to something elsewhere checks nothing. Nothing is fetched, and nothing takes long, whatever
the server wrote (:mod:`agentrun.run.schema_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from agentrun.run.exact import exact_json
from agentrun.run.records import Json
from agentrun.run.schema_rules import STEPS, bounded, steps

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

SCHEMA_MAX = 64 * 1024
"""Bytes of a schema that is looked at."""
STEP_SIZE = 4096
"""Bytes of arguments up to which all the steps are given; fewer to larger ones, because each rule may
look at all of them."""
ERRORS_MAX = 20
"""Errors of which the most telling one is chosen."""
MESSAGE_MAX = 300


def schema_problem(schema: Json, arguments: Json) -> str | None:
    """A way in which the arguments break the schema, or None."""
    if not isinstance(arguments, dict):
        return "they are not a JSON object, or are nested too deeply"
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


@lru_cache(maxsize=256)
def _problem(schema: _Same, arguments: _Same) -> str | None:
    from jsonschema.exceptions import best_match

    validator = _validator(schema)
    if validator is None:
        return None
    try:
        size = max(len(exact_json(arguments.value)), STEP_SIZE)
        with steps(STEPS * STEP_SIZE // size):
            error = best_match(islice(validator.iter_errors(arguments.value), ERRORS_MAX))
    except Exception:  # noqa: BLE001 - the schema is a server's; what breaks on it is not the call
        return None
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
    try:
        text = exact_json(bare)
        if len(text) > SCHEMA_MAX or b'"$schema"' in text:
            return None
        draft = validator_for(schema.value, default=Draft202012Validator)
        kind = bounded(draft)
        with steps(STEPS):
            valid = kind(_without_draft(draft.META_SCHEMA)).is_valid(bare)
        found: Validator = kind(bare, registry=Registry())
    except Exception:  # noqa: BLE001 - see above
        return None
    return found if valid else None


def _without_draft(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in schema.items() if key != "$schema"}


def _short(message: str) -> str:
    """A message that quotes a long value says why at its end."""
    half = MESSAGE_MAX // 2
    return message if len(message) <= MESSAGE_MAX else f"{message[:half]} … {message[-half:]}"
