"""What an attempt's end costs the run, and what follows it.

Infra counts against ``limits.infraRetries`` and has no back-off. App counts against
``limits.retries`` and waits base x 2^n, at most the cap. Three App faults at one progress end the
run, because a fourth would meet the same poison (H30). Suspensions count against nothing.
"""

from __future__ import annotations

from agentrun.api import AgentRunSpec, Reason
from agentrun.controller.actions import Actions, Charge, CreatePod, Emit, Finish, Mint
from agentrun.controller.plan.faults import APP, INFRA, UNUSABLE, Verdict
from agentrun.controller.settings import Settings
from agentrun.store.rows import RunRow, RunState

NO_PROGRESS_FAULTS = 3


def backoff_ms(settings: Settings, step: int) -> int:
    """Base x 2^step within the cap. Large steps must not overflow a float."""
    return int(min(settings.backoff_base * 2 ** min(step, 30), settings.backoff_cap) * 1000)


def after_end(
    settings: Settings,
    spec: AgentRunSpec,
    row: RunRow,
    verdict: Verdict,
    because: str,
    avoid: str | None = None,
) -> Actions:
    """The outcome if the run has no retries left, else the next attempt, at once or after back-off."""
    outcome = exhausted(spec, row, verdict)
    if outcome is not None:
        return (outcome,)
    end = verdict.end
    if end.cause in UNUSABLE:
        return (Charge(end, int(settings.record_wait * 1000)), _warn(end.cause, verdict))
    if end.fault == APP:
        wait = backoff_ms(settings, row.backoff_step)
        return (Charge(end, wait), _warn("AttemptFailed", verdict))
    return (Mint(because, end), CreatePod(avoid), _warn("AttemptLost", verdict))


def exhausted(spec: AgentRunSpec, row: RunRow, verdict: Verdict) -> Finish | None:
    """The outcome that this end brings, if it is one too many."""
    end, limits = verdict.end, spec.limits
    if verdict.fatal is not None:
        return _failed(verdict.fatal, verdict.message, verdict)
    if end.fault == APP and row.faults_at_progress + 1 >= NO_PROGRESS_FAULTS:
        return _failed(
            Reason.NO_PROGRESS,
            f"{NO_PROGRESS_FAULTS} attempts failed without progress, the last with {end.cause}",
            verdict,
        )
    if end.fault == APP and row.app_faults >= limits.retries:
        return _failed(
            Reason.RETRIES_EXHAUSTED,
            f"limits.retries: {limits.retries} used, the last attempt ended with {end.cause}",
            verdict,
        )
    if end.fault == INFRA and row.infra_faults >= limits.infra_retries:
        return _failed(
            Reason.RETRIES_EXHAUSTED,
            f"limits.infraRetries: {limits.infra_retries} used, the last attempt ended with "
            f"{end.cause}",
            verdict,
        )
    return None


def _failed(reason: Reason, message: str, verdict: Verdict) -> Finish:
    return Finish(RunState.FAILED, reason, message, verdict.end)


def _warn(reason: str, verdict: Verdict) -> Emit:
    code = verdict.end.exit_code
    note = f"{verdict.end.cause}, fault {verdict.end.fault}"
    note += f", exit code {code}" if code is not None else ""
    return Emit("Warning", reason, "Retrying", f"{note}. {verdict.message}".rstrip(". "))
