"""Named points at which tests kill, stop or hang this process.

``AGENTRUN_FAILPOINT=name[:n][:action]``, several separated by commas: the ``n``-th time (default 1)
that ``name`` is reached, do ``action`` (default kill). ``AGENTRUN_FAILPOINT_DIR`` holds one marker
per point that fired, so that each fires once per run and the next attempt goes on. Unset, a point
costs one comparison.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentrun.errors import UsageError

BEFORE_CLAIM: Final = "before-claim"
AFTER_CLAIM: Final = "after-claim"
DURING_MODEL: Final = "during-model"
AFTER_REPLY: Final = "after-reply"
AFTER_MODEL_COMMIT: Final = "after-model-commit"
IN_TOOL: Final = "in-tool"
AFTER_EFFECT: Final = "after-effect"
BEFORE_RESULT_COMMIT: Final = "before-result-commit"
BETWEEN_RESULTS: Final = "between-results"
AFTER_ROUND: Final = "after-round"
BEFORE_FINAL_COMMIT: Final = "before-final-commit"
AFTER_FINAL_COMMIT: Final = "after-final-commit"

NAMES: Final = frozenset(
    {
        BEFORE_CLAIM,
        AFTER_CLAIM,
        DURING_MODEL,
        AFTER_REPLY,
        AFTER_MODEL_COMMIT,
        IN_TOOL,
        AFTER_EFFECT,
        BEFORE_RESULT_COMMIT,
        BETWEEN_RESULTS,
        AFTER_ROUND,
        BEFORE_FINAL_COMMIT,
        AFTER_FINAL_COMMIT,
    }
)
ACTIONS: Final = ("kill", "stop", "hang")
KILLED: Final = 137
SOON: Final = 0.2
"""Seconds into a call at which the points inside calls fire."""


@dataclass(frozen=True, slots=True)
class Point:
    """One armed point."""

    name: str
    nth: int = 1
    action: str = "kill"


class Armed:
    """The points of this process, how often each was reached, and where firing is noted."""

    def __init__(self, points: Mapping[str, Point], folder: Path | None) -> None:
        self._points = points
        self._folder = folder
        self._reached: Counter[str] = Counter()

    def due(self, name: str) -> Point | None:
        """Count this visit; the point, if it is to fire now. A marker says that it fired before."""
        point = self._points.get(name)
        if point is None:
            return None
        self._reached[name] += 1
        if self._reached[name] < point.nth or not self._mark(point):
            return None
        return point

    def _mark(self, point: Point) -> bool:
        if self._folder is None:
            return self._reached[point.name] == point.nth
        self._folder.mkdir(parents=True, exist_ok=True)
        note = {"point": point.name, "nth": point.nth, "action": point.action, "pid": os.getpid()}
        try:
            with (self._folder / f"fired-{point.name}").open("x", encoding="utf-8") as marker:
                marker.write(json.dumps(note) + "\n")
        except FileExistsError:
            return False
        return True


_armed: Armed | None = None


def parse(text: str) -> dict[str, Point]:
    """The points that the variable asks for; UsageError for a name or action that is none."""
    points = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, *rest = item.split(":")
        nth = next((int(part) for part in rest if part.isdigit()), 1)
        words = [part for part in rest if part and not part.isdigit()]
        if name not in NAMES or any(word not in ACTIONS for word in words):
            raise UsageError(
                f"{item!r} is not name[:n][:action]",
                attempted="read AGENTRUN_FAILPOINT",
                advice=f"Names: {', '.join(sorted(NAMES))}. Actions: {', '.join(ACTIONS)}",
            )
        points[name] = Point(name, nth, words[0] if words else "kill")
    return points


def arm(environ: Mapping[str, str]) -> None:
    """Arm what the environment asks for; nothing when it does not."""
    global _armed  # noqa: PLW0603 - a process has one set of failpoints
    points = parse(environ.get("AGENTRUN_FAILPOINT", ""))
    folder = environ.get("AGENTRUN_FAILPOINT_DIR", "")
    _armed = Armed(points, Path(folder) if folder else None) if points else None


def reach(name: str) -> None:
    """The process is at this point."""
    if _armed is not None and (point := _armed.due(name)) is not None:
        _act(point.action)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """The process waits for something outside: an armed point fires a little later."""
    if _armed is None:
        yield
        return
    timer = asyncio.get_running_loop().call_later(SOON, reach, name)
    try:
        yield
    finally:
        timer.cancel()


def _act(action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
        os._exit(KILLED)  # the first process of a container cannot kill itself
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        while True:
            time.sleep(3600)
