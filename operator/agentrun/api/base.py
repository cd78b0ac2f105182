"""What every model of the API shares, and the bounded types they are made of.

Everything is frozen and refuses unknown fields. Attributes are snake_case, the wire is camelCase.
Bounds are part of the type, because they reach both the models and the CRD schema: Kubernetes
estimates the cost of validation rules from them, and etcd refuses objects above 1.5 MB
(conventions.md, row 3). Patterns use only what Rust's and Go's regular expressions share.

An optional text is ``""`` and an optional list or map is empty when it is absent; an optional
number is ``None``, because 0 is never "none" (API.md).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    Strict,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

INLINE_TEXT_MAX = 262_144
"""Characters of one inline text. Client-side apply keeps the object in an annotation, and all
annotations together hold 256 KiB (hazard H58)."""

INLINE_TEXT_CEILING = 1_048_576
"""Bound of the same text in the CRD's schema. Between the two bounds a rule refuses the text and
says what to do instead, which a bound of the schema cannot."""

OPAQUE_MAX = 32_768
"""Bytes of JSON in one opaque object (resources, affinity, outputSchema)."""


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


def inline(source: str) -> dict[str, Any]:
    """Schema extension of an inline text that may come from a ConfigMap instead, by ``source``."""
    message = f"at most {INLINE_TEXT_MAX} characters; {long_text_advice(source)}"
    return {
        "maxLength": INLINE_TEXT_CEILING,
        **rules(cel(f"size(self) <= {INLINE_TEXT_MAX}", message)),
    }


def unique() -> dict[str, Any]:
    """Schema extension of a list of different scalars."""
    return {"x-kubernetes-list-type": "set"}


def rfc3339(moment: datetime) -> str:
    """A moment as the API server writes it, in UTC, with a fraction only where there is one."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{text}Z"


def _small_enough(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    size = len(json.dumps(value))
    if size > OPAQUE_MAX:
        raise ValueError(f"holds {size} bytes of JSON, at most {OPAQUE_MAX} are allowed")
    return value


Time = Annotated[AwareDatetime, PlainSerializer(rfc3339, return_type=str, when_used="json")]
Flag = Annotated[bool, Strict()]
Int = Annotated[int, Strict()]
Count = Annotated[int, Strict(), Field(ge=0, le=1_000_000_000_000_000)]
Positive = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000_000)]
Seconds = Annotated[int, Strict(), Field(ge=1, le=315_360_000)]

FORMS: Final[dict[str, str]] = {}
"""What each pattern stands for, in words, for messages."""


def _form(pattern: str, words: str) -> str:
    FORMS[pattern] = words
    return pattern


_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_AGENT = r"[a-zA-Z0-9]([-_a-zA-Z0-9]*[a-zA-Z0-9])?"

DECIMAL = _form(r"^[0-9]{1,9}(\.[0-9]{1,9})?$", 'a decimal such as "2" or "0.75"')
TEMPERATURE = _form(r"^(0(\.[0-9]{1,4})?|1(\.0{1,4})?)$", 'a decimal from "0" to "1"')
QUANTITY = _form(r"^[0-9]{1,12}(\.[0-9]{1,3})?(Ki|Mi|Gi|Ti|k|M|G|T)?$", "a quantity such as 64Mi")
LABEL = _form(f"^{_LABEL}$", "lower-case letters, digits and dashes")
SUBDOMAIN = _form(f"^{_SUBDOMAIN}$", "lower-case letters, digits, dashes and dots")
NO_OR_SUBDOMAIN = _form(f"^({_SUBDOMAIN})?$", "lower-case letters, digits, dashes and dots")
AGENT = _form(f"^{_AGENT}$", "letters, digits, dashes and underscores")
NO_OR_AGENT = _form(f"^({_AGENT})?$", "letters, digits, dashes and underscores")
SERVER = _form(r"^[a-z0-9-]+$", "lower-case letters, digits and dashes")
TOOL_GLOB = _form(r"^[a-z0-9*?-]{1,24}\.[^\s]+$", "server.tool, for example ops.*")
IDENTITY = _form(r"^[A-Za-z0-9._-]+$", "letters, digits, dots, dashes and underscores")
NO_OR_IDENTITY = _form(r"^[A-Za-z0-9._-]*$", "letters, digits, dots, dashes and underscores")
HTTP_URL = _form(r"^(https?://[^\s]+)?$", "an http or https address")

Decimal = Annotated[str, Field(max_length=20, pattern=DECIMAL)]
Temperature = Annotated[str, Field(max_length=6, pattern=TEMPERATURE)]
Quantity = Annotated[str, Field(max_length=24, pattern=QUANTITY)]

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=LABEL)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN)]
OptionalObjectName = Annotated[str, Field(max_length=253, pattern=NO_OR_SUBDOMAIN)]
ConfigKey = Annotated[str, Field(min_length=1, max_length=253, pattern=IDENTITY)]
AgentName = Annotated[str, Field(min_length=1, max_length=63, pattern=AGENT)]
OptionalAgentName = Annotated[str, Field(max_length=63, pattern=NO_OR_AGENT)]
ServerName = Annotated[str, Field(min_length=1, max_length=24, pattern=SERVER)]
ToolGlob = Annotated[str, Field(min_length=1, max_length=192, pattern=TOOL_GLOB)]
ToolName = Annotated[str, Field(max_length=192)]
RunId = Annotated[str, Field(min_length=1, max_length=128, pattern=IDENTITY)]
OptionalId = Annotated[str, Field(max_length=128, pattern=NO_OR_IDENTITY)]
Word = Annotated[str, Field(max_length=64, pattern=r"^([A-Z][A-Za-z0-9]*)?$")]
User = Annotated[str, Field(max_length=512)]
Url = Annotated[str, Field(max_length=2048, pattern=HTTP_URL)]
ImageRef = Annotated[str, Field(max_length=512, pattern=r"^[^\s]*$")]
Hex64 = Annotated[str, Field(min_length=64, max_length=64, pattern=r"^[0-9a-f]{64}$")]
TraceId = Annotated[str, Field(max_length=32, pattern=r"^([0-9a-f]{32})?$")]
SpanId = Annotated[str, Field(max_length=16, pattern=r"^([0-9a-f]{16})?$")]

Line = Annotated[str, Field(max_length=256)]
Note = Annotated[str, Field(max_length=1024)]
Text = Annotated[str, Field(max_length=65_536)]
InlineText = Annotated[str, Field(min_length=1, max_length=INLINE_TEXT_MAX)]

MetadataKey = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9_.]+$")]
TaskMetadataKey = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[a-zA-Z][a-zA-Z0-9._-]*$")
]
QualifiedKey = Annotated[str, Field(min_length=1, max_length=317)]
LabelValue = Annotated[
    str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]

Opaque = Annotated[
    dict[str, JsonValue],
    AfterValidator(_small_enough),
    WithJsonSchema(
        {"type": "object", "maxProperties": 64, "x-kubernetes-preserve-unknown-fields": True}
    ),
]
