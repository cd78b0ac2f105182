"""The metrics registry: every name, its labels and its help, in one place.

No label may hold a run's name, a namespace, a model's text or anything else without bound.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)

FAST = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
LONG = (60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
COUNTS = (1, 10, 100, 1_000, 10_000, 100_000)


class Metrics:
    """All metrics of one process, on a registry of its own so that tests and programs never share."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._runner()
        self._store()
        self._operator()

    def text(self) -> bytes:
        """The exposition format, as scraped."""
        return generate_latest(self.registry)

    def serve(self, port: int, host: str = "0.0.0.0") -> None:  # noqa: S104 - scraped from outside
        """Answer scrapes from a daemon thread."""
        start_http_server(port, host, self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, *labels: str, buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(name, text, labels, registry=self.registry, buckets=buckets)

    def _runner(self) -> None:
        self.checkpoint_seconds = self._histogram(
            "agentrun_checkpoint_seconds",
            "Time from a finished step to its commit.",
            "boundary",
            buckets=FAST,
        )
        self.checkpoint_bytes = self._counter(
            "agentrun_checkpoint_bytes_total",
            "Bytes of commits: payload before compression, stored after it.",
            "kind",
        )
        self.restore_seconds = self._histogram(
            "agentrun_restore_seconds", "Time to fetch, decode and fold a record.", buckets=FAST
        )
        self.restore_blocks = self._histogram(
            "agentrun_restore_blocks", "Commits folded by a restore.", buckets=COUNTS
        )
        self.tool_unknown_outcome = self._counter(
            "agentrun_tool_unknown_outcome_total",
            "Tool calls that were sent and not answered.",
            "policy",
        )
        self.model_calls_discarded = self._counter(
            "agentrun_model_calls_discarded_total",
            "Model calls whose reply was paid for or under way and not used.",
        )
        self.tokens = self._counter("agentrun_tokens_total", "Tokens of model calls.", "kind")

    def _store(self) -> None:
        self.fenced_writes = self._counter(
            "agentrun_fenced_writes_total", "Writes refused because another attempt owns the run."
        )
        self.store_errors = self._counter(
            "agentrun_store_errors_total", "Errors of the store by kind.", "kind"
        )
        self.store_regressed = self._counter(
            "agentrun_store_regressed_total", "Acknowledged commits found missing in the store."
        )

    def _operator(self) -> None:
        self.runs = self._gauge("agentrun_runs", "Runs by phase.", "phase")
        self.attempts = self._counter(
            "agentrun_attempts_total",
            "Attempts minted, by what they follow: start, ended, gone, lease-expired, terminating, "
            "charged, resumed, decided.",
            "cause",
        )
        self.approval_wait_seconds = self._histogram(
            "agentrun_approval_wait_seconds", "Time from request to decision.", buckets=LONG
        )
        self.approval_decisions = self._counter(
            "agentrun_approval_decisions_total", "Decisions consumed.", "decision", "result"
        )
        self.k8s_requests = self._counter(
            "agentrun_k8s_requests_total",
            "Requests to the API server.",
            "verb",
            "resource",
            "code",
        )
        self.watch_last_event = self._gauge(
            "agentrun_watch_last_event_timestamp",
            "Unix time of the last watch event.",
            "resource",
        )
        self.queue_depth = self._gauge("agentrun_queue_depth", "Keys waiting for a reconcile.")
        self.reconcile_seconds = self._histogram(
            "agentrun_reconcile_seconds", "Time of one reconcile.", buckets=FAST
        )
