"""Reading a parsed document field by field, with errors that name the place.

A script is written by hand; "replies[3].match.turn: must be a whole number" is worth more than a
stack trace, and an unknown key is refused because a misspelt one would change what a test tests.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from agentrun.errors import UsageError


@dataclass(frozen=True)
class Node:
    """A mapping of the document together with where it stands."""

    fields: dict[str, Any]
    where: str

    @staticmethod
    def of(value: Any, where: str) -> Node:
        if not isinstance(value, dict):
            raise refused(where, "must be a mapping")
        for key in value:
            if not isinstance(key, str):
                raise refused(where, f"has the key {key!r}, which is not a string")
        return Node(value, where)

    def only(self, *known: str) -> None:
        """Refuse keys outside ``known``."""
        for key in self.fields:
            if key not in known:
                raise refused(self.where, f"unknown key {key!r} (known: {', '.join(known)})")

    def has(self, key: str) -> bool:
        return self.fields.get(key) is not None

    def child(self, key: str) -> Node:
        """The mapping under ``key``; an empty one if the key is absent."""
        value = self.fields.get(key)
        return Node.of({} if value is None else value, self._at(key))

    def children(self, key: str) -> tuple[Node, ...]:
        """The list of mappings under ``key``; empty if the key is absent."""
        value = self.fields.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise refused(self._at(key), "must be a list")
        return tuple(Node.of(item, f"{self._at(key)}[{i}]") for i, item in enumerate(value))

    def text(self, key: str) -> str | None:
        value = self.fields.get(key)
        if value is None or isinstance(value, str):
            return value
        raise refused(self._at(key), f"must be a string, not {value!r}")

    def required(self, key: str) -> str:
        value = self.text(key)
        if not value:
            raise refused(self.where, f"needs {key}")
        return value

    def pattern(self, key: str) -> re.Pattern[str] | None:
        value = self.text(key)
        if value is None:
            return None
        try:
            return re.compile(value)
        except re.error as error:
            raise refused(self._at(key), f"is not a regular expression: {error}") from None

    def whole(self, key: str, default: int = 0) -> int:
        value = self.fields.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refused(self._at(key), f"must be a whole number, not {value!r}")
        return value

    def seconds(self, key: str) -> float:
        value = self.fields.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e6:
            raise refused(self._at(key), f"must be a number of seconds, not {value!r}")
        return float(value)

    def flag(self, key: str) -> bool:
        value = self.fields.get(key, False)
        if not isinstance(value, bool):
            raise refused(self._at(key), f"must be true or false, not {value!r}")
        return value

    def json(self, key: str) -> str:
        """The value under ``key`` as compact JSON text, ``{}`` if absent."""
        try:
            return dump(self.fields.get(key, {}))
        except (TypeError, ValueError, RecursionError) as error:
            raise refused(self._at(key), f"is not JSON: {error}") from None

    def _at(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key


def refused(where: str, problem: str) -> UsageError:
    return UsageError(f"{where}: {problem}" if where else problem, attempted="read the script")


def dump(value: Any) -> str:
    """JSON that keeps every code unit, lone surrogates included."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
