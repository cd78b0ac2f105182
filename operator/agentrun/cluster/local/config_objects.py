"""ConfigMaps and Secrets as a person writes them: checked as kubectl's strict validation does. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from agentrun.api.bounds import FORMS, SUBDOMAIN
from agentrun.api.validation.manifest import METADATA, one_message, unknown_fields
from agentrun.errors import Rejected

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ConfigMap": ("apiVersion", "kind", "metadata", "data", "immutable"),
    "Secret": ("apiVersion", "kind", "metadata", "type", "data", "stringData", "immutable"),
}

NAME_MAX: Final = 253


def plain_metadata(manifest: Mapping[str, Any], namespace: str) -> dict[str, str]:
    """Name and namespace. Rejected names what is missing, misspelt or of the wrong shape."""
    kind = str(manifest.get("kind"))
    if problems := _problems(manifest, kind):
        raise Rejected(one_message(problems), attempted=f"apply {kind}")
    metadata = manifest["metadata"]
    return {"name": metadata["name"], "namespace": metadata.get("namespace") or namespace}


def texts(manifest: Mapping[str, Any], field: str) -> dict[str, str]:
    """The strings by name in one field; empty if it is absent."""
    given = manifest.get(field)
    doing = f"apply {manifest.get('kind')}"
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Rejected(f"{field}: must be a mapping", attempted=doing)
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise Rejected(f"{field}.{name}: must be a string; put it in quotes", attempted=doing)
    return dict(given)


def _problems(manifest: Mapping[str, Any], kind: str) -> list[str]:
    found = unknown_fields(manifest, FIELDS[kind])
    if manifest.get("apiVersion") != "v1":
        found.append("apiVersion: must be v1")
    metadata = manifest.get("metadata")
    if not isinstance(metadata, Mapping):
        return [
            *found,
            "metadata.name: required" if metadata is None else "metadata: must be a mapping",
        ]
    found += unknown_fields(metadata, METADATA, "metadata")
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not name:
        found.append("metadata.name: required")
    elif not isinstance(name, str) or len(name) > NAME_MAX or not re.fullmatch(SUBDOMAIN, name):
        found.append(f"metadata.name: must be at most {NAME_MAX} {FORMS[SUBDOMAIN]}")
    if namespace is not None and not isinstance(namespace, str):
        found.append("metadata.namespace: must be a string; put it in quotes")
    return found
