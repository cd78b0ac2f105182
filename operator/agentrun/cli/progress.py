"""Live progress of runs: a table on a terminal, one line per change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from agentrun.api import AgentRun, Phase
from agentrun.cli.output import run_row

HEADER = ("NAME", "PHASE", "REASON", "ATTEMPT", "TURNS", "TOKENS", "COST")
COLOURS = {
    Phase.RUNNING: "cyan",
    Phase.SUCCEEDED: "green",
    Phase.FAILED: "red",
    Phase.REJECTED: "red",
    Phase.SUSPENDED: "yellow",
}


class Progress:
    """Shows runs as they change; a context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stderr)
        self._live = Live(console=self._console, auto_refresh=False)
        self._last: dict[str, tuple[str, ...]] = {}

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, runs: Sequence[AgentRun]) -> None:
        """The runs as they are now."""
        if self._console.is_terminal:
            self._live.update(_table(runs), refresh=True)
            return
        for run in runs:
            row = (*run_row(run)[: len(HEADER)], trouble(run))
            if self._last.get(row[0]) != row:
                self._last[row[0]] = row
                self._print(row)

    def _print(self, row: tuple[str, ...]) -> None:
        cells = (
            f"{name.lower()}={cell}"
            for name, cell in zip((*HEADER, "MESSAGE"), row, strict=True)
            if cell
        )
        self._console.print("  ".join(cells), markup=False, highlight=False, soft_wrap=True)


def trouble(run: AgentRun) -> str:
    """The message of a run that waits for something; progress needs none."""
    status = run.status
    waits = status is not None and status.phase in (Phase.PENDING, Phase.SUSPENDED)
    return status.message if status is not None and waits else ""


def _table(runs: Sequence[AgentRun]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in HEADER:
        table.add_column(name, no_wrap=True)
    table.add_column("MESSAGE")
    for run in runs:
        phase = run.status.phase if run.status else Phase.PENDING
        cells = (*run_row(run)[: len(HEADER)], trouble(run))
        table.add_row(*cells, style=COLOURS.get(phase, ""))
    return table
