"""What every model of the API shares: how it is spelled on the wire, and what its schema carries.

Everything is frozen and refuses unknown fields. Attributes are snake_case, the wire is camelCase.
An optional text is ``""`` and an optional list or map is empty when it is absent; an optional
number is ``None``, because 0 is never "none".
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from agentrun.api.bounds import INLINE_TEXT_CEILING, INLINE_TEXT_MAX


class ApiModel(BaseModel):
    """Base of every type that is ours: frozen, camelCase on the wire, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    def to_dict(self) -> dict[str, Any]:
        """The wire form with exactly the fields that were given; defaults stay implied."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def cel(rule: str, message: str, **more: str | bool) -> dict[str, Any]:
    """One ``x-kubernetes-validations`` entry; ``more`` holds fieldPath, optionalOldSelf and so on."""
    return {"rule": rule, "message": message, **more}


def rules(*entries: dict[str, Any]) -> dict[str, Any]:
    """Schema extension that carries CEL rules, for ``json_schema_extra``."""
    return {"x-kubernetes-validations": list(entries)}


def keyed(*keys: str) -> dict[str, Any]:
    """Schema extension of a list whose items are told apart by ``keys`` (merge by key)."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def long_text_advice(source: str) -> str:
    """What to do with a text that is too long for a manifest."""
    return f"put longer text into a ConfigMap (up to 1 MiB) and name it in {source}"


def inline() -> dict[str, Any]:
    """Schema extension of an inline text that may come from a ConfigMap instead."""
    return {"maxLength": INLINE_TEXT_CEILING}


def short_inline(field: str) -> dict[str, Any]:
    """The rule that goes with ``inline``. It stands on the parent, because a rule on the text
    itself makes the API server repeat the whole text in its message."""
    advice = f"at most {INLINE_TEXT_MAX} characters; {long_text_advice(f'{field}From')}"
    rule = f"!has(self.{field}) || size(self.{field}) <= {INLINE_TEXT_MAX}"
    return cel(rule, advice, fieldPath=f".{field}")


def unique() -> dict[str, Any]:
    """Schema extension of a list of different scalars."""
    return {"x-kubernetes-list-type": "set"}
