"""From an untyped manifest to an ``AgentRun``, or to one message that names the fields.

Messages name fields and what they should be, never the values: they reach status and Events, and
manifests hold prompts.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agentrun.api.base import long_text_advice
from agentrun.api.bounds import FORMS, INLINE_TEXT_MAX
from agentrun.api.names import AGENTRUN_KIND, API_VERSION, RUN_NAME_MAX, valid_run_name
from agentrun.api.resource import AgentRun
from agentrun.api.validation.paths import NAME_SHOWN, dotted, model_at
from agentrun.errors import InvalidSpec

MANIFEST_MAX: Final = 1_048_576
"""Bytes of JSON of one manifest. etcd takes 1.5 MB, and status and metadata need room as well."""

SHOWN: Final = 5
"""Problems that one message names; the rest are counted."""

GENERATED_SUFFIX: Final = 5
"""Characters that the API server appends to a generateName."""

_SUBJECT: Final = re.compile(r"^\w+ should")

METADATA: Final = (
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
"""Fields of Kubernetes' object metadata. Ours is the part that is read; kubectl knows them all."""

_OPAQUE: Final = frozenset({"outputSchema", "resources", "affinity", "tolerations"})


def parse(obj: object) -> AgentRun:
    """The run that ``obj`` describes, its fields checked one by one.

    Raises ``InvalidSpec``. ``null`` counts as absent, as it does for the API server.
    """
    if not isinstance(obj, Mapping):
        raise InvalidSpec("a manifest is a mapping with apiVersion, kind, metadata and spec")
    for field, expected in (("apiVersion", API_VERSION), ("kind", AGENTRUN_KIND)):
        if obj.get(field) != expected:
            raise InvalidSpec(f"{field}: must be {expected}")
    if unknown := unknown_fields(obj.get("metadata"), METADATA, "metadata"):
        raise InvalidSpec(one_message(unknown))
    try:
        run = AgentRun.model_validate(_without_nulls(obj), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidSpec(one_message(problem(details) for details in error.errors())) from None
    size = len(
        json.dumps(obj.get("spec"), ensure_ascii=False, default=str).encode(errors="replace")
    )
    if size > MANIFEST_MAX:
        raise InvalidSpec(
            f"spec: holds {size} bytes of JSON, at most {MANIFEST_MAX} are stored; put long texts "
            "into ConfigMaps and name them in promptFrom or instructionsFrom"
        )
    return run


def name_problem(run: AgentRun) -> str | None:
    """What is wrong with the run's name, if anything; a generateName needs room for its suffix."""
    name, prefix = run.metadata.name, run.metadata.generate_name
    if name and not valid_run_name(name):
        return (
            f"metadata.name: at most {RUN_NAME_MAX} lower-case letters, digits and dashes, no dots"
        )
    if not name and not prefix:
        return "metadata.name: required"
    if not name and not valid_run_name(prefix + "x" * GENERATED_SUFFIX):
        room = RUN_NAME_MAX - GENERATED_SUFFIX
        return f"metadata.generateName: at most {room} lower-case letters, digits and dashes"
    return None


def one_message(problems: Iterable[str]) -> str:
    """Several problems as one sentence; the first few are named."""
    found = list(dict.fromkeys(problems))
    text = "; ".join(found[:SHOWN])
    return text if len(found) <= SHOWN else f"{text}; and {len(found) - SHOWN} more"


def unknown_fields(value: object, known: Iterable[str], where: str = "") -> list[str]:
    """A message for each field of a mapping that is not among those known."""
    names, prefix = list(known), f"{where}." if where else ""
    if not isinstance(value, Mapping):
        return []
    return [
        f"{prefix}{str(name)[:NAME_SHOWN]}: unknown field{_near(str(name), names)}"
        for name in value
        if name not in names
    ]


def problem(details: ErrorDetails) -> str:
    """One of pydantic's errors in the words of a manifest."""
    location = [part for part in details["loc"] if part != "[key]"]
    where = dotted(location)
    match details["type"]:
        case "extra_forbidden":
            return f"{where}: unknown field{_suggestion(location)}"
        case "missing":
            return f"{where}: required"
        case "string_too_long" | "too_long":
            return f"{where}: {_too_long(details, location)}"
        case "value_error":
            return f"{where}: {details['ctx']['error']}"
        case "string_pattern_mismatch":
            pattern = details["ctx"]["pattern"]
            return f"{where}: must be {FORMS.get(pattern, f'text that matches {pattern}')}"
        case "string_type" if isinstance(details["input"], int | float | date):
            return f"{where}: must be a string; put it in quotes"
        case "string_unicode":
            return f"{where}: must be Unicode text; it holds half a character (a lone surrogate)"
        case "model_type" | "dict_type":
            return f"{where}: must be a mapping"
        case "tuple_type" | "list_type":
            return f"{where}: must be a list"
        case "invalid_key":
            return f"{where}: every name must be a string; put it in quotes"
        case _:
            return f"{where}: {_SUBJECT.sub('must', details['msg'])}"


def _too_long(details: ErrorDetails, location: list[str | int]) -> str:
    limit = details["ctx"]["max_length"]
    unit = "characters" if details["type"] == "string_too_long" else "items"
    text = f"at most {limit} {unit}"
    source = f"{location[-1]}From"
    parent = model_at(AgentRun, location[:-1])
    if parent and any(field.alias == source for field in parent.model_fields.values()):
        return f"{text}; {long_text_advice(source)}"
    if limit == INLINE_TEXT_MAX:
        return f"{text}; let the agent read longer text through a tool or the workspace"
    return text


def _suggestion(location: list[str | int]) -> str:
    parent = model_at(AgentRun, location[:-1])
    if parent is None:
        return ""
    known = {field.alias or name: name for name, field in parent.model_fields.items()}
    wanted = str(location[-1])[:NAME_SHOWN]
    by_attribute = [alias for alias, name in known.items() if name == wanted]
    return f"; did you mean {by_attribute[0]}?" if by_attribute else _near(wanted, known)


def _near(wanted: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(wanted[:NAME_SHOWN], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: item if key in _OPAQUE else _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value
