"""Traces of one attempt: a root span whose ids the run row gives, and its steps below it.

The operator makes trace id and root span id at the mint, so that an attempt that never claimed can
still be linked to. Attempt n ≥ 2 is a new trace with a link ``continued_from`` to attempt n-1.

Nothing is exported, and no SDK loaded, unless the standard ``OTEL_`` variables ask for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Thread
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from agentrun.run.records import TraceLink
from agentrun.telemetry.fields import admitted

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Link, Span

SCOPE = "agentrun"
HAND_OVER = 2.0
"""Seconds for the last spans: a collector that does not answer must not hold up a pod's end."""


class Trace(Protocol):
    """Spans of one attempt."""

    def span(self, name: str, **facts: object) -> AbstractContextManager[None]:
        """A step of the attempt; facts from the closed set of fields. An error marks the span."""
        ...

    def end(self, outcome: str) -> None:
        """Close the root span and hand over what is left, within a bounded time."""
        ...


class Silent:
    """Exports nothing."""

    def span(self, name: str, **facts: object) -> AbstractContextManager[None]:
        """Does nothing."""
        return nullcontext()

    def end(self, outcome: str) -> None:
        """Does nothing."""


def wanted(environ: Mapping[str, str]) -> str | None:
    """The OTLP endpoint for traces that the standard variables name, or None."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if environ.get("OTEL_TRACES_EXPORTER", "otlp").strip() not in ("otlp", ""):
        return None
    own = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if own:
        return own
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    return f"{base.rstrip('/')}/v1/traces" if base else None


def headers(environ: Mapping[str, str]) -> dict[str, str]:
    """``OTEL_EXPORTER_OTLP_[TRACES_]HEADERS``: ``key=value`` pairs, percent-encoded."""
    text = environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS") or environ.get(
        "OTEL_EXPORTER_OTLP_HEADERS", ""
    )
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {unquote(key.strip()): unquote(value.strip()) for key, _, value in pairs}


def timeout_seconds(environ: Mapping[str, str]) -> float:
    """``OTEL_EXPORTER_OTLP_[TRACES_]TIMEOUT``, milliseconds, default ten seconds."""
    text = environ.get("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT") or environ.get(
        "OTEL_EXPORTER_OTLP_TIMEOUT", ""
    )
    return int(text) / 1000 if text.isdigit() else 10.0


def attempt_trace(
    environ: Mapping[str, str],
    *,
    trace_id: str,
    span_id: str,
    continued_from: TraceLink | None,
    exporter: SpanExporter | None = None,
    **facts: object,
) -> Trace:
    """The trace of an attempt, or a silent one when nothing asks for export.

    ``exporter`` replaces the one that the environment names.
    """
    if exporter is None:
        endpoint = wanted(environ)
        if endpoint is None:
            return Silent()
        from agentrun.telemetry.otlp import OtlpExporter

        exporter = OtlpExporter(endpoint, headers(environ), timeout_seconds(environ))
    return _Exported(exporter, trace_id, span_id, continued_from, facts)


class _Exported:
    """The SDK's tracer, with the first span's ids given from outside."""

    def __init__(
        self,
        exporter: SpanExporter,
        trace_id: str,
        span_id: str,
        continued_from: TraceLink | None,
        facts: Mapping[str, object],
    ) -> None:
        from opentelemetry import context, trace

        self._provider = _provider(exporter, int(trace_id, 16), int(span_id, 16))
        self._tracer = self._provider.get_tracer(SCOPE)
        self._root = self._tracer.start_span(
            "attempt",
            context=context.Context(),
            links=[_link(continued_from)] if continued_from else [],
            attributes=_attributes(facts),
        )
        self._context = trace.set_span_in_context(self._root)

    def span(self, name: str, **facts: object) -> AbstractContextManager[None]:
        return self._span(name, facts)

    @contextmanager
    def _span(self, name: str, facts: Mapping[str, object]) -> Iterator[None]:
        span = self._tracer.start_span(name, context=self._context, attributes=_attributes(facts))
        try:
            yield
        except BaseException as error:
            _failed(span, type(error).__name__)
            raise
        finally:
            span.end()

    def end(self, outcome: str) -> None:
        self._root.set_attribute("agentrun.outcome", outcome)
        self._root.end()
        handing_over = Thread(target=self._provider.shutdown, name="spans", daemon=True)
        handing_over.start()
        handing_over.join(HAND_OVER)


def _provider(exporter: SpanExporter, trace_id: int, span_id: int) -> TracerProvider:
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class GivenFirst(RandomIdGenerator):
        """The first span is the attempt's root; all others get ids as usual."""

        first = True

        def generate_trace_id(self) -> int:
            return trace_id

        def generate_span_id(self) -> int:
            if self.first:
                self.first = False
                return span_id
            return super().generate_span_id()

    named = Resource.create()
    if str(named.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        named = named.merge(Resource({SERVICE_NAME: "agentrun-runner"}))
    provider = TracerProvider(id_generator=GivenFirst(), resource=named, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _link(origin: TraceLink) -> Link:
    from opentelemetry.trace import Link, TraceFlags
    from opentelemetry.trace import SpanContext as Context

    context = Context(
        int(origin.trace_id, 16),
        int(origin.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return Link(
        context,
        {
            "agentrun.relation": "continued_from",
            "agentrun.attempt": origin.attempt,
            "agentrun.seq": origin.seq,
        },
    )


def _attributes(facts: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    return {
        f"agentrun.{name}": value
        for name, value in admitted(facts).items()
        if isinstance(value, str | int | float | bool)
    }


def _failed(span: Span, why: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, why))
