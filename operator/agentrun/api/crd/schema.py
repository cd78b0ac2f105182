"""From a pydantic model to a structural OpenAPI v3 schema, as a CRD demands it.

No references, no ``null``, no unions; every list has a list type. Unknown fields need no entry: the
API server prunes them, and refuses them under strict validation. A default that means absence
(empty, false, zero) is left out, so that absent stays absent in the stored object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

TIME_MAX: Final = 64
"""Characters of a date-time; the API server counts the cost of rules by it."""

_ORDER: Final = (
    "description",
    "type",
    "format",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    "required",
    "items",
    "additionalProperties",
    "properties",
)

_KEPT: Final = frozenset(_ORDER) - {"items", "additionalProperties", "properties", "default"}

Schema = dict[str, Any]


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of ``model``, by wire names."""
    source = model.model_json_schema(by_alias=True)
    return _node(source, source.get("$defs", {}))


def has_defaults(schema: Schema) -> bool:
    """Whether the API server would fill in anything inside an empty object of this schema."""
    return any(
        "default" in child or has_defaults(child)
        for child in schema.get("properties", {}).values()
        if child.get("type") != "array"
    )


def _node(source: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    flat = _flattened(source, definitions)
    node = {key: value for key, value in flat.items() if key in _KEPT}
    match node.get("type"):
        case "object":
            _object(node, flat, definitions)
        case "array":
            node.setdefault("x-kubernetes-list-type", "atomic")
            node["items"] = _node(flat["items"], definitions)
        case "integer":
            node["format"] = "int64"
        case "string" if node.get("format") == "date-time":
            node["maxLength"] = TIME_MAX
    default = flat.get("default")
    if node.get("type") == "object":
        if default is not None and has_defaults(node):
            node["default"] = {}
    elif default:
        node["default"] = default
    return {key: node[key] for key in _ORDER if key in node}


def _object(node: Schema, flat: Mapping[str, Any], definitions: Mapping[str, Any]) -> None:
    if "properties" in flat:
        node["properties"] = {
            name: _node(child, definitions) for name, child in flat["properties"].items()
        }
        return
    values = flat.get("additionalProperties") or next(
        iter(flat.get("patternProperties", {}).values()), None
    )
    if values:
        node["additionalProperties"] = _node(values, definitions)


def _flattened(source: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """``source`` without reference and without the alternative ``null``; its own keys win."""
    if "$ref" in source:
        inner: Mapping[str, Any] = definitions[source["$ref"].rpartition("/")[2]]
    elif "anyOf" in source:
        (inner,) = (option for option in source["anyOf"] if option != {"type": "null"})
    else:
        return dict(source)
    own = {key: value for key, value in source.items() if key not in ("$ref", "anyOf")}
    return {**_flattened(inner, definitions), **own}
