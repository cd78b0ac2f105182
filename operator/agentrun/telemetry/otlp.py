"""Spans over OTLP/HTTP in its JSON encoding, which every collector accepts on port 4318.

Written with the standard library so that a runner image needs neither protobuf nor gRPC. What cannot
be delivered is dropped: telemetry never holds up a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.error import URLError
from urllib.request import Request, urlopen

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind

from agentrun.telemetry import logs

_KIND = {
    SpanKind.INTERNAL: 1,
    SpanKind.SERVER: 2,
    SpanKind.CLIENT: 3,
    SpanKind.PRODUCER: 4,
    SpanKind.CONSUMER: 5,
}


class OtlpExporter(SpanExporter):
    """Posts batches of spans to one URL."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError("the OTLP endpoint must be an http or https URL")
        self._url = url
        self._headers = {**headers, "Content-Type": "application/json"}
        self._timeout = timeout
        self._complained = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send one batch; called from the SDK's own thread."""
        body = json.dumps(encode(spans)).encode()
        request = Request(self._url, body, self._headers)  # noqa: S310 - checked above
        try:
            with urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                answer.read()
        except (URLError, OSError, ValueError):
            if not self._complained:
                self._complained = True
                logs.get().warning("spans could not be exported and are dropped")
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


def encode(spans: Sequence[ReadableSpan]) -> dict[str, object]:
    """An ExportTraceServiceRequest. All spans of this process share resource and scope."""
    resource = spans[0].resource.attributes if spans else {}
    scope = spans[0].instrumentation_scope if spans else None
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [
                    {
                        "scope": {"name": scope.name if scope else ""},
                        "spans": [_span(span) for span in spans],
                    }
                ],
            }
        ]
    }


def _span(span: ReadableSpan) -> dict[str, object]:
    value: dict[str, object] = {
        **_ids(span.get_span_context()),
        "name": span.name,
        "kind": _KIND[span.kind],
        "startTimeUnixNano": str(span.start_time or 0),
        "endTimeUnixNano": str(span.end_time or 0),
        "attributes": _attributes(span.attributes or {}),
        "links": [_link(link) for link in span.links],
        "status": {
            "code": span.status.status_code.value,
            **({"message": span.status.description} if span.status.description else {}),
        },
    }
    if span.parent is not None:
        value["parentSpanId"] = f"{span.parent.span_id:016x}"
    return value


def _link(link: Link) -> dict[str, object]:
    return {**_ids(link.context), "attributes": _attributes(link.attributes or {})}


def _ids(context: SpanContext | None) -> dict[str, str]:
    if context is None:
        return {}
    return {"traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}"}


def _attributes(values: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: object) -> dict[str, object]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}
