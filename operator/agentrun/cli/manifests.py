"""Manifests from files: every document of every file, refused with file and line where wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentrun.errors import UsageError


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, and where it was read."""

    document: Mapping[str, Any]
    source: str


class _Strict(yaml.SafeLoader):
    """Duplicate keys are an error, as in ``kubectl apply``: YAML would keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key!r}", key_node.start_mark
                )
            seen.add(key if isinstance(key, str) else str(key))
        return super().construct_mapping(node, deep)


def read_manifests(paths: Sequence[Path]) -> tuple[Manifest, ...]:
    """All documents, in order. UsageError names file and line."""
    found: list[Manifest] = []
    for path in paths:
        found.extend(_read(path))
    if not found:
        raise UsageError(
            "no manifest in it", attempted="read", on=", ".join(str(path) for path in paths)
        )
    return tuple(found)


def _read(path: Path) -> list[Manifest]:
    try:
        text = path.read_text(encoding="utf-8")
        documents = list(yaml.load_all(text, Loader=_Strict))
    except OSError as error:
        raise UsageError(str(error.strerror), attempted="read", on=str(path)) from None
    except UnicodeDecodeError:
        raise UsageError("it is not UTF-8 text", attempted="read", on=str(path)) from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or "it is not YAML"
        raise UsageError(str(what), attempted="read", on=f"{path}{line}") from None
    return [
        Manifest(item, f"{path}#{number}")
        for number, document in enumerate(documents, start=1)
        for item in _objects(document, path)
    ]


def _objects(document: Any, path: Path) -> list[Mapping[str, Any]]:
    """The object, or the items of a List."""
    if document is None:
        return []
    if not isinstance(document, dict):
        raise UsageError(
            f"a manifest is an object, not {type(document).__name__}",
            attempted="read",
            on=str(path),
        )
    if document.get("kind") == "List" and isinstance(document.get("items"), list):
        return [item for part in document["items"] for item in _objects(part, path)]
    return [document]
