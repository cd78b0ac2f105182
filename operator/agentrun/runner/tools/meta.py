"""What a tool is told about the call besides its arguments."""

from __future__ import annotations

from agentrun.run.records import Json
from agentrun.run.values import OutgoingCall
from agentrun.workspace.protocol import META_CALL_KEY, META_NOT_AFTER


def call_meta(call: OutgoingCall, not_after: float | None) -> dict[str, Json]:
    """``_meta`` of a call. ``not_after`` is wall-clock seconds, enforced by the bundled server."""
    meta: dict[str, Json] = {
        META_CALL_KEY: call.key,
        "agentrun.dev/run-uid": call.run_uid,
        "agentrun.dev/run-id": call.run_id,
        "agentrun.dev/task": call.task,
        "agentrun.dev/call-id": call.model_id,
        "agentrun.dev/attempt": call.attempt,
        "agentrun.dev/agent": call.agent,
    }
    return meta if not_after is None else {**meta, META_NOT_AFTER: not_after}
