"""Logs as JSON lines, one object each: time, level, event, and facts from a closed set of fields.

Our own code logs with :func:`get`. What libraries log through the standard library is reduced to
where it came from, because their texts may quote requests, arguments and results; loggers that are
known to speak about objects only can be let through by name.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Collection, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog

from agentrun.telemetry.fields import SHORTEST_SECRET, admitted, masked

Log = structlog.typing.FilteringBoundLogger

_secrets: set[str] = set()


def conceal(*secrets: str) -> None:
    """Cover these strings wherever they would appear in a log line from now on."""
    _secrets.update(text for text in secrets if len(text) >= SHORTEST_SECRET)


def configure(
    *,
    stream: TextIO | None = None,
    level: str = "INFO",
    wall: Callable[[], float] = time.time,
    plain_text: Collection[str] = (),
    **facts: object,
) -> None:
    """Set up logging of this process; ``facts`` are in every line.

    ``plain_text`` names library loggers whose messages are shown as they are.
    """
    threshold = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    out = stream or sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _Shape(wall, facts),
            structlog.processors.JSONRenderer(serializer=_line),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Libraries(plain_text)]
    root.setLevel(max(threshold, logging.WARNING))
    for name in plain_text:
        logging.getLogger(name).setLevel(threshold)


def get(**facts: object) -> Log:
    """A logger with these facts in each of its lines."""
    log: Log = structlog.get_logger(**facts)
    return log


class _Shape:
    """Last processor before rendering: adds the time and the facts, admits only known fields."""

    def __init__(self, wall: Callable[[], float], facts: Mapping[str, object]) -> None:
        self._wall = wall
        self._facts = facts

    def __call__(
        self, logger: object, method: str, event: MutableMapping[str, Any]
    ) -> Mapping[str, Any]:
        said = str(event.pop("event", ""))
        level = event.pop("level", method)
        text = event.pop("_text", None)
        now = datetime.fromtimestamp(self._wall(), UTC)
        line: dict[str, object] = {
            "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": level,
            "event": masked(said, _secrets),
        }
        line.update(admitted({**self._facts, **event}, _secrets))
        if text is not None:
            line["text"] = masked(text, _secrets)
        return line


class _Libraries(logging.Handler):
    """What others log, turned into lines of ours without their texts."""

    def __init__(self, plain_text: Collection[str]) -> None:
        super().__init__()
        self._plain = tuple(plain_text)

    def emit(self, record: logging.LogRecord) -> None:
        """One line: logger, source line, and the text only of loggers let through by name."""
        facts: dict[str, object] = {"logger": record.name, "line": record.lineno}
        if record.exc_info and record.exc_info[1] is not None:
            facts["error"] = record.exc_info[1]
        if any(record.name == name or record.name.startswith(f"{name}.") for name in self._plain):
            facts["_text"] = record.getMessage()[:1000]
        log = structlog.get_logger()
        speak = {"DEBUG": log.debug, "INFO": log.info, "WARNING": log.warning}
        speak.get(record.levelname, log.error)("library message", **facts)


def _line(value: Mapping[str, object], **_: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
