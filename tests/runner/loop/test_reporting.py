"""What an attempt tells: log lines, metrics and spans of a whole run, and nothing of its content."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.runner.loop.fakes import Stage, asks, says, text
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.run.values import ToolSilence
from agentrun.runner import reporting
from agentrun.runner.reporting import Reporter
from agentrun.telemetry import logs, traces
from agentrun.telemetry.metrics import Metrics

PRIVATE = "the-private-words"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure(stream=stream, level="DEBUG", run_uid="u1")
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


class _Kept(InMemorySpanExporter):
    """Outlives the attempts that export to it."""

    def shutdown(self) -> None:
        return


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = _Kept()
    plain = traces.attempt_trace

    def begin(environ: dict[str, str], **facts: object) -> traces.Trace:
        return plain({}, exporter=exporter, **facts)  # type: ignore[arg-type]

    monkeypatch.setattr(reporting.traces, "attempt_trace", begin)
    return exporter


def private_run() -> Stage:
    """A run whose every word is private, with a silent call and a second attempt."""
    made = Stage(
        make_spec(prompt=PRIVATE),
        lambda turn: (asks("look", turn=0, secret=PRIVATE), text(PRIVATE))[turn],
    )
    made.tools.answer = lambda call: (
        ToolSilence("broken") if sum(made.tools.requests.values()) == 1 else says(PRIVATE)
    )
    return made


def test_a_whole_run_is_told_and_none_of_its_content(
    out: io.StringIO, spans: InMemorySpanExporter
) -> None:
    metrics = Metrics()

    async def scene() -> None:
        made = private_run()
        made.observer = Reporter({}, metrics)  # type: ignore[assignment]
        made.kill.acts["before look"] = lambda: made.drain and made.drain.begin()
        made.check_errors = False
        await made.attempt()
        made.kill.acts = {}
        made.observer = Reporter({}, metrics)  # type: ignore[assignment]
        await made.attempt()
        assert made.db.state == "Succeeded"

    run(scene())

    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    events = [line["event"] for line in lines]
    for expected in ("claimed", "restored", "draining", "model replied", "tool outcome unknown"):
        assert expected in events
    assert {line["run_uid"] for line in lines} == {"u1"}
    assert not any("dropped" in line for line in lines), "a field is missing in the closed set"
    assert PRIVATE not in out.getvalue()

    finished = spans.get_finished_spans()
    assert all(PRIVATE not in span.to_json() for span in finished)
    roots = [span for span in finished if span.name == "attempt"]
    assert [len(root.links) for root in roots] == [0, 1]
    assert f"{roots[1].links[0].context.trace_id:032x}" == f"{1:032x}"
    assert f"{roots[1].context.trace_id:032x}" == f"{2:032x}"
    assert {span.name for span in finished} == {"attempt", "model", "tool"}

    value = metrics.registry.get_sample_value
    assert value("agentrun_tokens_total", {"kind": "output"}) == 10
    assert value("agentrun_tool_unknown_outcome_total", {"policy": "Rerun"}) == 1
    assert value("agentrun_checkpoint_seconds_count", {"boundary": "tool/result"}) == 1
    assert value("agentrun_restore_seconds_count") == 2
    assert value("agentrun_checkpoint_bytes_total", {"kind": "stored"}) > 0


def test_fenced_writes_and_lost_commits_are_counted(out: io.StringIO) -> None:
    metrics = Metrics()

    async def scene() -> None:
        made = private_run()
        made.observer = Reporter({}, metrics)  # type: ignore[assignment]
        made.check_errors = False
        made.kill.acts["before tool/unknown"] = made.db.fence_off
        await made.attempt()

    run(scene())

    value = metrics.registry.get_sample_value
    assert value("agentrun_fenced_writes_total") == 1
    assert value("agentrun_store_errors_total", {"kind": "Fenced"}) == 1
