"""The step CallModel: one request, one reply, one commit."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Coroutine
from typing import Any

from agentrun.errors import ModelRefused, ModelUnavailable
from agentrun.run import boundaries
from agentrun.run.request import build_request
from agentrun.run.steps import CallModel
from agentrun.run.values import Boundary, ModelRequest, Reply
from agentrun.runner import failpoints
from agentrun.runner.attempt import Attempt


def call_model(attempt: Attempt, step: CallModel) -> Coroutine[Any, Any, None]:
    """The work of the step. The request is built now, from the state that allowed the step."""
    request = build_request(attempt.state, attempt.spec, step.conversation)
    return _ask(attempt, step, request, attempt.tail.submitted)


async def _ask(attempt: Attempt, step: CallModel, request: ModelRequest, after: int) -> None:
    path = step.conversation
    if not attempt.may_send():
        return
    try:
        reply = await _complete(attempt, step, request)
    except CancelledError:
        attempt.observer.discarded()
        raise
    except (ModelRefused, ModelUnavailable) as error:
        _fail(attempt, path, error, after)
        return
    failpoints.reach(failpoints.AFTER_REPLY)
    if not attempt.keeps(failed=False):
        attempt.observer.discarded()
        return
    attempt.observer.replied(path, step.turn, reply)
    boundary = boundaries.after_model(attempt.state, attempt.spec, path, request, reply)
    attempt.commit(boundary, after=after)


async def _complete(attempt: Attempt, step: CallModel, request: ModelRequest) -> Reply:
    agent = attempt.state.conversations[step.conversation].agent
    facts = {"conversation": step.conversation, "turn": step.turn, "model": request.model}
    with attempt.observer.span("model", **facts), failpoints.inside(failpoints.DURING_MODEL):
        return await attempt.model(agent).complete(request)


def _fail(attempt: Attempt, path: str, error: ModelRefused | ModelUnavailable, after: int) -> None:
    """A refused request fails its task; an outage ends the attempt once the others have settled."""
    if not attempt.keeps(failed=True):
        return

    def failed() -> Boundary:
        return boundaries.model_failed(attempt.state, path, error)

    boundary = failed()
    if boundary.last is None:
        attempt.commit(boundary, after=after)
    else:
        attempt.part(failed)
