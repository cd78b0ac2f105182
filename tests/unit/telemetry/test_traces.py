"""The attempt's trace: given ids, the link to the attempt before, silence unless asked."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentrun.errors import ModelRefused
from agentrun.run.records import TraceLink
from agentrun.telemetry import otlp
from agentrun.telemetry.traces import Silent, Trace, attempt_trace, headers, wanted

TRACE, SPAN = "a" * 32, "b" * 16
BEFORE = TraceLink(attempt=1, trace_id="c" * 32, span_id="d" * 16, seq=14)


def begun(exporter: InMemorySpanExporter, **facts: object) -> Trace:
    return attempt_trace(
        {}, trace_id=TRACE, span_id=SPAN, continued_from=BEFORE, exporter=exporter, **facts
    )


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def test_nothing_is_exported_unless_the_environment_asks() -> None:
    assert isinstance(attempt_trace({}, trace_id=TRACE, span_id=SPAN, continued_from=None), Silent)


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x"}, "http://c/x"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_the_standard_variables_decide(environ: dict[str, str], endpoint: str | None) -> None:
    assert wanted(environ) == endpoint


def test_headers_are_decoded() -> None:
    assert headers({"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%3Db, y=z"}) == {"x-key": "a=b", "y": "z"}


def test_the_root_span_has_the_given_ids_and_the_link(exporter: InMemorySpanExporter) -> None:
    begun(exporter, run_uid="u1", attempt=2).end("Succeeded")

    (root,) = exporter.get_finished_spans()
    assert root.name == "attempt"
    assert f"{root.context.trace_id:032x}" == TRACE
    assert f"{root.context.span_id:016x}" == SPAN
    assert root.parent is None
    (link,) = root.links
    assert f"{link.context.trace_id:032x}" == "c" * 32
    assert f"{link.context.span_id:016x}" == "d" * 16
    assert link.attributes is not None
    assert dict(link.attributes) == {
        "agentrun.relation": "continued_from",
        "agentrun.attempt": 1,
        "agentrun.seq": 14,
    }


def test_steps_are_children_and_carry_no_content(exporter: InMemorySpanExporter) -> None:
    trace = begun(exporter)
    with trace.span("tool", tool="ops.restart", arguments={"service": "private"}):
        pass
    trace.end("Succeeded")

    child, root = exporter.get_finished_spans()
    assert child.parent is not None
    assert child.parent.span_id == root.context.span_id
    assert child.context.span_id != root.context.span_id
    assert "private" not in child.to_json()


def test_an_error_marks_the_span_with_its_type_only(exporter: InMemorySpanExporter) -> None:
    trace = begun(exporter)
    with pytest.raises(ModelRefused), trace.span("model"):
        raise ModelRefused("private words")
    trace.end("Failed")

    child, _ = exporter.get_finished_spans()
    assert child.status.description == "ModelRefused"
    assert "private" not in child.to_json()


class _Collector(BaseHTTPRequestHandler):
    bodies: list[dict[str, object]] = []  # noqa: RUF012 - one collector per test run
    seen_headers: list[str | None] = []  # noqa: RUF012

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.bodies.append(json.loads(self.rfile.read(size)))
        self.seen_headers.append(self.headers.get("x-key"))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), _Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_spans_arrive_at_a_collector_as_otlp_json(collector: HTTPServer) -> None:
    url = f"http://127.0.0.1:{collector.server_port}"
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=k",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "5000",
    }
    trace = attempt_trace(environ, trace_id=TRACE, span_id=SPAN, continued_from=BEFORE, attempt=2)
    with trace.span("model", turn=1):
        pass
    trace.end("Succeeded")

    spans = [
        span
        for body in _Collector.bodies
        for resource in body["resourceSpans"]  # type: ignore[attr-defined]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    root = next(span for span in spans if span["name"] == "attempt")
    child = next(span for span in spans if span["name"] == "model")
    assert root["traceId"] == TRACE
    assert root["spanId"] == SPAN
    assert child["parentSpanId"] == SPAN
    assert root["links"][0]["traceId"] == "c" * 32
    assert {"key": "agentrun.attempt", "value": {"intValue": "2"}} in root["attributes"]
    assert set(_Collector.seen_headers) == {"k"}


def test_a_collector_that_is_away_costs_nothing_but_spans() -> None:
    exporter = otlp.OtlpExporter("http://127.0.0.1:9/v1/traces", {}, 1.0)
    trace = attempt_trace({}, trace_id=TRACE, span_id=SPAN, continued_from=None, exporter=exporter)

    trace.end("Succeeded")


def test_a_silent_attempt_loads_no_sdk() -> None:
    import subprocess

    code = (
        "import sys; from agentrun.telemetry.traces import attempt_trace;"
        f"attempt_trace({{}}, trace_id='{TRACE}', span_id='{SPAN}', continued_from=None);"
        "assert not any(name.startswith(('opentelemetry', 'prometheus_client'))"
        " for name in sys.modules)"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
