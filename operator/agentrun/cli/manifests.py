"""Manifests from files: every document of every file, refused with file and line where wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


MERGE = "tag:yaml.org,2002:merge"
VALUES_MAX = 1_000_000
"""Values of one document once its aliases are written out: more than any manifest may hold bytes."""


class _Strict(yaml.SafeLoader):
    """Duplicate keys are an error, as in ``kubectl apply``: YAML would keep the last one. So is a
    scalar that is not what its form promises (a date of a thirteenth month)."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, OverflowError):
            raise yaml.constructor.ConstructorError(
                None,
                None,
                "a value cannot be read as what it looks like; quote it",
                node.start_mark,
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == MERGE:
                continue
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
        documents = list(_documents(text))
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


def _documents(text: str) -> Iterator[Any]:
    """The documents, none of which is made before it is known what its aliases come to."""
    loader = _Strict(text)
    try:
        while loader.check_node() and (node := loader.get_node()) is not None:
            _written_out(node, {})
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _written_out(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values the node is with its aliases written out. A few lines can stand for more than
    any memory holds, and an alias of what it is in for no end at all."""
    if (size := known.get(id(node))) is None:
        known[id(node)] = 0
        size = 1 + sum(_written_out(inner, known) for inner in _inner(node))
        known[id(node)] = size
    if not 0 < size <= VALUES_MAX:
        why = f"its aliases come to more than {VALUES_MAX} values" if size else "it contains itself"
        raise yaml.composer.ComposerError(None, None, why, node.start_mark)
    return size


def _inner(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


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
    if not isinstance(document.get("kind", ""), str):
        raise UsageError("kind: must be a string", attempted="read", on=str(path))
    if document.get("kind") == "List" and isinstance(document.get("items"), list):
        return [item for part in document["items"] for item in _objects(part, path)]
    return [document]
