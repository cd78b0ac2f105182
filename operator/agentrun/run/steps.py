"""What may happen next, as values. :func:`agentrun.run.next_steps.next_steps` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrun.run.identity import CallId
from agentrun.run.records import ResultOrigin


@dataclass(frozen=True, slots=True)
class OfferTools:
    """List the tool servers and record what this agent is offered, before its first request."""

    agent: str


@dataclass(frozen=True, slots=True)
class StartTask:
    """Begin a task: its conversation opens with the first user message."""

    task: str


@dataclass(frozen=True, slots=True)
class CallModel:
    """Send the conversation to the model; the reply is turn ``turn``."""

    conversation: str
    turn: int


@dataclass(frozen=True, slots=True)
class RunTool:
    """Send a call to its server. ``ordinal`` counts its starts, from 1; it is no part of equality,
    because a start that was just recorded is still the same step."""

    call: CallId
    ordinal: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class RefuseCall:
    """Give a call an error result without sending it, or without sending it again."""

    call: CallId
    origin: ResultOrigin
    message: str


@dataclass(frozen=True, slots=True)
class RequestApproval:
    """Ask a person about a call. ``ordinal`` counts the questions about it, from 1."""

    call: CallId
    ordinal: int


@dataclass(frozen=True, slots=True)
class CloseRound:
    """All calls of the round have results: one user message in request order, next turn."""

    conversation: str


@dataclass(frozen=True, slots=True)
class CompleteTask:
    """The conversation has its final answer."""

    task: str


@dataclass(frozen=True, slots=True)
class FailTask:
    """The task cannot go on (its agent's own limits, refused request)."""

    task: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Suspend:
    """Nothing can run until somebody acts: commit, give the pod back."""

    reason: str
    message: str = ""
    not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """Write the outcome."""

    outcome: str
    reason: str = ""
    message: str = ""


Step = (
    OfferTools
    | StartTask
    | CallModel
    | RunTool
    | RefuseCall
    | RequestApproval
    | CloseRound
    | CompleteTask
    | FailTask
    | Suspend
    | Finish
)
