"""Steps in flight: each started once, all of them ended before the attempt is.

A step's task makes its own commit, so nothing is handed back; the loop only needs to know what is
under way, when something ended, and whether something broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from agentrun.run.steps import CallModel, OfferTools, RunTool, Step


@dataclass(slots=True, eq=False)
class StepTask:
    """One step under way. ``until`` is when a sent tool call passes its own timeout."""

    step: Step
    task: asyncio.Task[None]
    until: float | None = None


class StepsInFlight:
    """What is under way. Owned by the loop, which closes it on every way out."""

    def __init__(self, landed: Callable[[Step], None]) -> None:
        self._landed = landed
        self._steps: dict[Step, StepTask] = {}
        self.failure: BaseException | None = None

    def __contains__(self, step: Step) -> bool:
        return step in self._steps

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(tuple(self._steps))

    def start(self, step: Step, work: Coroutine[Any, Any, None]) -> None:
        """Begin a step that is not under way."""
        task = asyncio.create_task(work, name=type(step).__name__)
        self._steps[step] = StepTask(step, task)
        task.add_done_callback(lambda ended: self._ended(step, ended))

    def sent(self, step: Step, until: float) -> None:
        """A tool call left; it is progress by itself until then."""
        if step in self._steps:
            self._steps[step].until = until

    def conversations(self) -> set[str]:
        """Paths of the conversations that have work under way."""
        return {path for step in self._steps if (path := conversation_of(step)) is not None}

    def within_timeout(self, now: float) -> bool:
        """Whether a tool call is inside its own timeout."""
        return any(f.until is not None and now <= f.until for f in self._steps.values())

    def abort(self, *, sparing_sent_calls: bool = False) -> None:
        """Cancel what is under way; tool calls that have left may be spared."""
        for started in self._steps.values():
            if not (sparing_sent_calls and started.until is not None):
                started.task.cancel()

    def abandon(self) -> None:
        """Stop waiting for what does not end; nothing it still does is committed (H27)."""
        self._steps.clear()

    async def close(self, patience: float) -> None:
        """Cancel everything and wait, but not for ever."""
        tasks = [started.task for started in self._steps.values()]
        self.abort()
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        self._steps.clear()

    def _ended(self, step: Step, task: asyncio.Task[None]) -> None:
        started = self._steps.get(step)
        if started is not None and started.task is task:
            del self._steps[step]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error
        self._landed(step)


def conversation_of(step: Step) -> str | None:
    """The conversation that a step with I/O belongs to; None for the others."""
    if isinstance(step, CallModel):
        return step.conversation
    return step.call.path if isinstance(step, RunTool) else None


OUTSIDE = (CallModel, RunTool, OfferTools)
"""Steps that talk to somebody else."""
