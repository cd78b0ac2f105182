"""The attempt's events as log lines, metrics and spans."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from agentrun.errors import Fenced, StoreRegressed
from agentrun.run.identity import CallId
from agentrun.run.state import State
from agentrun.run.values import Reply
from agentrun.runner.exits import Ending
from agentrun.runner.model.port import ModelNote
from agentrun.runner.observer import Observer
from agentrun.store.port import Claim
from agentrun.telemetry import logs, traces

if TYPE_CHECKING:
    from agentrun.telemetry.metrics import Metrics


class Reporter(Observer):
    """Logs always, counts if metrics are served, traces if the environment asks for it."""

    def __init__(self, environ: Mapping[str, str], metrics: Metrics | None = None) -> None:
        self._environ = environ
        self._metrics = metrics
        self._log = logs.get()
        self._trace: traces.Trace = traces.Silent()
        self._claim: Claim | None = None

    def span(self, name: str, **facts: object) -> AbstractContextManager[None]:
        return self._trace.span(name, **facts)

    def claimed(self, claim: Claim) -> None:
        self._claim = claim
        self._log = logs.get(attempt=claim.attempt, run=claim.name, namespace=claim.namespace)
        self._log.info("claimed", seq=claim.seq, snapshot_seq=claim.snapshot_seq)

    def restored(self, state: State, commits: int, snapshot_seq: int, seconds: float) -> None:
        origin = state.continued_from
        self._log.info(
            "restored",
            commits=commits,
            snapshot_seq=snapshot_seq,
            seconds=round(seconds, 4),
            source=None if origin is None else f"attempt {origin.attempt}, seq {origin.seq}",
        )
        if self._metrics is not None:
            self._metrics.restore_seconds.observe(seconds)
            self._metrics.restore_blocks.observe(commits)
        if self._claim is not None:
            self._trace = traces.attempt_trace(
                self._environ,
                trace_id=self._claim.trace_id,
                span_id=self._claim.span_id,
                continued_from=origin,
                run_uid=self._claim.run_uid,
                run_id=self._claim.run_id,
                attempt=self._claim.attempt,
                fence=self._claim.fence,
            )

    def landed(self, kind: str, seq: int, seconds: float, payload: int, stored: int) -> None:
        self._log.debug("committed", kind=kind, seq=seq, bytes=stored, seconds=round(seconds, 4))
        if self._metrics is not None:
            self._metrics.checkpoint_seconds.labels(kind).observe(seconds)
            self._metrics.checkpoint_bytes.labels("payload").inc(payload)
            self._metrics.checkpoint_bytes.labels("stored").inc(stored)

    def snapshot(self, seq: int, size: int) -> None:
        self._log.info("snapshot written", snapshot_seq=seq, bytes=size)

    def snapshot_failed(self, error: Exception) -> None:
        self._log.warning("snapshot not written", error=error)

    def model_note(self, note: ModelNote) -> None:
        if note.what == "retry":
            self._log.warning(
                "model call failed, trying again",
                tries=note.tried,
                code=note.status,
                reason=note.why,
                wait=round(note.wait, 1),
            )

    def replied(self, conversation: str, turn: int, reply: Reply) -> None:
        usage = reply.usage
        kinds = {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cache_read": usage.cache_read_tokens,
            "cache_write": usage.cache_write_tokens,
        }
        self._log.info(
            "model replied", conversation=conversation, turn=turn, count=len(reply.requested)
        )
        if self._metrics is not None:
            for kind, tokens in kinds.items():
                self._metrics.tokens.labels(kind).inc(tokens)

    def discarded(self) -> None:
        self._log.info("model call discarded")
        if self._metrics is not None:
            self._metrics.model_calls_discarded.inc()

    def answered(self, call: CallId, tool: str, *, failed: bool) -> None:
        outcome = "error" if failed else "ok"
        self._log.info("tool answered", call=str(call), tool=tool, outcome=outcome)

    def silent(self, call: CallId, tool: str, policy: str) -> None:
        self._log.warning("tool outcome unknown", call=str(call), tool=tool, policy=policy)
        if self._metrics is not None:
            self._metrics.tool_unknown_outcome.labels(policy).inc()

    def unreachable(self, server: str, error: Exception) -> None:
        self._log.warning("tool server unreachable", server=server, error=error)

    def toolset(self, agent: str, count: int) -> None:
        self._log.info("tools recorded", agent=agent, count=count)

    def environment_reset(self, server: str) -> None:
        self._log.warning("tool server lost its state", server=server)

    def requested(self, requested: str, reason: str) -> None:
        self._log.info("operator wants", requested=requested, reason=reason)

    def draining(self, seconds: float) -> None:
        self._log.info("draining", seconds=round(seconds, 1))

    def store_error(self, error: Exception) -> None:
        self._log.warning("store", error=error)
        if self._metrics is None:
            return
        self._metrics.store_errors.labels(type(error).__name__).inc()
        if isinstance(error, Fenced):
            self._metrics.fenced_writes.inc()
        elif isinstance(error, StoreRegressed):
            self._metrics.store_regressed.inc()

    def failed(self, error: Exception) -> None:
        self._log.error("attempt failed", error=error)

    def ended(self, ending: Ending) -> None:
        self._log.info("attempt ended", exit_code=int(ending.code), reason=ending.reason)
        self._trace.end(ending.reason or ending.code.name)
