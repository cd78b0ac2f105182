"""The step RunTool: one call, sent once, and what came of it."""

from __future__ import annotations

from collections.abc import Callable

from agentrun.api import Reason
from agentrun.errors import NotSent, ToolServerUnavailable
from agentrun.run import boundaries
from agentrun.run.policy import policy_for
from agentrun.run.state import CallPhase
from agentrun.run.steps import RunTool, Suspend
from agentrun.run.values import Boundary, OutgoingCall, ToolOutcome, ToolSilence
from agentrun.runner import failpoints
from agentrun.runner.attempt import Attempt
from agentrun.runner.ready_servers import RETRY_WAITS, ReadyServers

OUTAGE_WAIT_MS = 60_000
"""How long a run suspended for an unreachable tool server waits before it tries again."""


async def run_tool(attempt: Attempt, servers: ReadyServers, step: RunTool, after: int) -> None:
    """The work of the step. Without an outcome (nothing was sent) it commits nothing."""
    call = boundaries.outgoing(attempt.state, attempt.spec, step.call)
    try:
        await servers.ready(call.server)
        started, after = await _start(attempt, step, call, after)
        outcome = await _send(attempt, step, call, started)
    except ToolServerUnavailable as error:
        if attempt.keeps(failed=True):
            attempt.part(unreachable(attempt, call.server, error))
        return
    if outcome is None or not attempt.keeps(failed=_failed(outcome)):
        return
    tool = f"{call.server}.{call.tool}"
    if isinstance(outcome, ToolSilence):
        attempt.observer.silent(call.call, tool, policy_for(attempt.spec, tool).on_unknown.value)
    else:
        failpoints.reach(failpoints.AFTER_EFFECT)
        attempt.observer.answered(call.call, tool, failed=outcome.is_error)
        await servers.answered(call.server, after)
        if not attempt.keeps(failed=_failed(outcome)):
            return
    boundary = boundaries.after_tool(attempt.state, step.call, outcome)
    failpoints.reach(failpoints.BEFORE_RESULT_COMMIT)
    entry = attempt.commit(boundary, after=after)
    if not isinstance(outcome, ToolSilence):
        entry.then = lambda: _between(attempt, step)


def unreachable(
    attempt: Attempt, server: str, error: ToolServerUnavailable
) -> Callable[[], Boundary]:
    """The run waits without a pod for a tool server that cannot be reached."""
    step = Suspend(
        Reason.TOOL_SERVER_UNAVAILABLE, f"tool server {server}: {error}"[:500], OUTAGE_WAIT_MS
    )
    return lambda: boundaries.settle(step, attempt.state, attempt.spec)


async def _start(
    attempt: Attempt, step: RunTool, call: OutgoingCall, after: int
) -> tuple[float | None, int]:
    """Commit the start record where the policy needs one: when it was sent, and its number."""
    start = boundaries.tool_started(
        attempt.state, attempt.spec, step.call, step.ordinal, call.timeout_ms
    )
    if start is None:
        return None, after
    now = attempt.clock.now()
    entry = attempt.commit(start, after=after)
    await entry.landed.wait()
    return now, entry.number


async def _send(
    attempt: Attempt, step: RunTool, call: OutgoingCall, started: float | None
) -> ToolOutcome | None:
    """One outcome. A call with a start record leaves within its reach, or is unknown (H66)."""

    def in_time() -> bool:
        return started is None or attempt.clock.now() - started <= attempt.lease.reach

    def may_send() -> bool:
        allowed = attempt.may_send() and in_time()
        if allowed:
            attempt.flight.sent(step, attempt.clock.now() + call.timeout_ms / 1000)
        return allowed

    facts = {"call": str(call.call), "tool": f"{call.server}.{call.tool}"}
    waits = iter(RETRY_WAITS)
    while True:
        try:
            with attempt.observer.span("tool", **facts), failpoints.inside(failpoints.IN_TOOL):
                return await attempt.tools.call(call, may_send=may_send)
        except NotSent:
            return None if started is None else ToolSilence("it could not be sent in time")
        except ToolServerUnavailable as error:
            attempt.observer.unreachable(call.server, error)
            wait = next(waits, None)
            if started is not None and not in_time():
                return ToolSilence("its server could not be reached in time")
            if wait is None:
                raise
            await attempt.clock.sleep(wait)


def _failed(outcome: ToolOutcome) -> bool:
    return isinstance(outcome, ToolSilence) or outcome.is_error


def _between(attempt: Attempt, step: RunTool) -> None:
    """A result landed while others of its round are still missing."""
    conversation = attempt.state.conversations[step.call.path]
    if any(call.phase is not CallPhase.COMMITTED for call in conversation.calls):
        failpoints.reach(failpoints.BETWEEN_RESULTS)
