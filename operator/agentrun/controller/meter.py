"""What the operator counts. Without a registry (local mode serves no metrics) nothing is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentrun.api import AgentRun, Phase
from agentrun.errors import AgentRunError, StoreError

if TYPE_CHECKING:
    from agentrun.telemetry.metrics import Metrics


class Meter:
    """Facts of the controller, turned into metrics."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics

    def reconciled(self, seconds: float) -> None:
        """One reconcile has ended, one way or the other."""
        if self._metrics is not None:
            self._metrics.reconcile_seconds.observe(seconds)

    def failed(self, error: AgentRunError) -> None:
        """A port has raised; the API server's answers are counted where they are received."""
        if self._metrics is not None and isinstance(error, StoreError):
            self._metrics.store_errors.labels(type(error).__name__).inc()

    def minted(self, because: str) -> None:
        """An attempt was minted."""
        if self._metrics is not None:
            self._metrics.attempts.labels(because).inc()

    def decided(self, decision: str, waited: float, *, resumed: bool) -> None:
        """A decision was consumed, so long after it was asked for."""
        if self._metrics is not None:
            result = "resumed" if resumed else "recorded"
            self._metrics.approval_decisions.labels(decision, result).inc()
            self._metrics.approval_wait_seconds.observe(waited)

    def saw(self, resource: str) -> None:
        """A watch has brought something."""
        if self._metrics is not None:
            self._metrics.watch_last_event.labels(resource).set_to_current_time()

    def survey(self, waiting: int, runs: Iterable[AgentRun]) -> None:
        """How things stand at the moment of a scrape."""
        if self._metrics is None:
            return
        self._metrics.queue_depth.set(waiting)
        shown = Counter(run.status.phase if run.status else Phase.PENDING for run in runs)
        for phase in Phase:
            self._metrics.runs.labels(phase.value).set(shown[phase])
