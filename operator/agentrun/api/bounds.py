"""The bounded types that the API is made of.

Bounds are part of the type, because they reach both the models and the CRD schema: Kubernetes
estimates the cost of validation rules from them, and etcd refuses objects above 1.5 MB.
Patterns use only what Rust's and Go's regular expressions share.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Field,
    JsonValue,
    PlainSerializer,
    Strict,
    WithJsonSchema,
)

INLINE_TEXT_MAX = 262_144
"""Characters of one inline text. Client-side apply keeps the object in an annotation, and all
annotations together hold 256 KiB (hazard H58)."""

INLINE_TEXT_CEILING = 1_048_576
"""Bound of the same text in the CRD's schema. Between the two bounds a rule refuses the text and
says what to do instead, which a bound of the schema cannot."""

OPAQUE_MAX = 32_768
"""Bytes of JSON in one opaque object (resources, affinity, outputSchema)."""


def rfc3339(moment: datetime) -> str:
    """A moment as the API server writes it, in UTC, with a fraction only where there is one."""
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{text}Z"


def _small_enough(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    size = len(json.dumps(value, allow_nan=False))
    if size > OPAQUE_MAX:
        raise ValueError(f"holds {size} bytes of JSON, at most {OPAQUE_MAX} are allowed")
    return value


Time = Annotated[AwareDatetime, PlainSerializer(rfc3339, return_type=str, when_used="json")]
Flag = Annotated[bool, Strict()]
Int = Annotated[int, Strict()]
COUNT_MAX = 1_000_000_000_000_000
Count = Annotated[int, Strict(), Field(ge=0, le=COUNT_MAX)]
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
