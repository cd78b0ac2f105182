"""Log lines: shape, and what can never be in one."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from agentrun.errors import StoreRefused
from agentrun.telemetry import logs

SECRET = "postgres://runner:hunter22@db/runs"


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    logs._secrets.clear()


@pytest.fixture
def out() -> io.StringIO:
    stream = io.StringIO()
    logs.configure(stream=stream, wall=lambda: 1_700_000_000.25, run_uid="u1", attempt=2)
    return stream


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_time_level_event_and_facts(out: io.StringIO) -> None:
    logs.get(fence=3).info("committed", seq=7, kind="tool/result")

    assert lines(out) == [
        {
            "time": "2023-11-14T22:13:20.250Z",
            "level": "info",
            "event": "committed",
            "run_uid": "u1",
            "attempt": 2,
            "fence": 3,
            "seq": 7,
            "kind": "tool/result",
        }
    ]


def test_a_field_outside_the_closed_set_is_left_out_and_reported(out: io.StringIO) -> None:
    logs.get().info("called", tool="ops.restart", arguments={"service": "checkout"}, prompt="hi")

    (line,) = lines(out)
    assert line["dropped"] == "arguments,prompt"
    assert "checkout" not in out.getvalue()


def test_a_value_that_is_no_plain_value_becomes_its_type(out: io.StringIO) -> None:
    logs.get().info("odd", reason={"content": "private"})

    (line,) = lines(out)
    assert line["reason"] == "dict"


def test_errors_of_ours_speak_and_others_only_say_where(out: io.StringIO) -> None:
    ours = StoreRefused("too large", attempted="append commit", on="seq 4")
    try:
        json.loads('{"prompt": private words')
    except ValueError as caught:
        theirs = caught

    logs.get().error("refused", error=ours)
    logs.get().error("crashed", error=theirs)

    first, second = lines(out)
    assert first["message"] == "append commit (seq 4): too large"
    assert second["error"] == "JSONDecodeError"
    assert "decoder.py" in str(second["at"])
    assert "private" not in out.getvalue()


def test_known_secrets_are_covered_wherever_they_appear(out: io.StringIO) -> None:
    logs.conceal(SECRET, "abc")

    logs.get().error("refused", error=StoreRefused(f"cannot connect to {SECRET}"))

    assert SECRET not in out.getvalue()
    assert "cannot connect to •••" in out.getvalue()


def test_libraries_are_reduced_to_where_they_spoke(out: io.StringIO) -> None:
    logging.getLogger("library.client").warning("Failed to parse: %s", "private words")

    (line,) = lines(out)
    assert line["logger"] == "library.client"
    assert line["level"] == "warning"
    assert "private" not in out.getvalue()


def test_a_library_let_through_by_name_keeps_its_text() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, plain_text=["kopf"])

    logging.getLogger("kopf.objects").info("watching %s", "agentruns")
    logging.getLogger("kopfish").info("quiet")

    (line,) = lines(stream)
    assert line["text"] == "watching agentruns"


def test_levels_below_the_threshold_are_silent() -> None:
    stream = io.StringIO()
    logs.configure(stream=stream, level="warning")

    logs.get().info("not shown")

    assert stream.getvalue() == ""


def test_code_units_that_are_not_text_do_not_break_a_line(out: io.StringIO) -> None:
    logs.get().info("odd", reason="lone \ud800 surrogate\x00")

    (line,) = lines(out)
    assert line["reason"] == "lone \ud800 surrogate\x00"
