"""A run played through the pure functions of ``agentrun.run``, as its runner would play it.

The boundaries are the real ones: the same functions make them, encode them and fold them. Only the
request is not built, because nobody sends it and its cost grows with the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from agentrun.api import AgentRunSpec
from agentrun.run import boundaries, totals
from agentrun.run.fold import OPERATOR, RUNNER, fold
from agentrun.run.next_steps import next_steps
from agentrun.run.records import AttemptStart, Record, RunStart, ToolOffer
from agentrun.run.state import State
from agentrun.run.steps import CallModel, OfferTools, RunTool, Step
from agentrun.run.values import Boundary, Intent, ModelRequest
from agentrun.runner.attempt import new_commit, totals_row
from agentrun.store.port import NewCommit
from agentrun.store.rows import TotalsRow
from bench.conversation import Voices

BOUNDARIES_A_TURN = 3
"""The reply, the result of its call, the round's end."""

SPEC = AgentRunSpec.model_validate(
    {
        "prompt": "Find out why checkout is slow, and write down what you did.",
        "agents": [{"name": "sre", "tools": ["ops.*"], "maxTurns": 100_000}],
        "model": {"name": "bench-model"},
        "toolServers": [{"name": "ops", "url": "http://127.0.0.1:1/mcp"}],
    }
)
_OFFERS = tuple(
    ToolOffer(
        tool=f"ops.{name}",
        wire=f"ops__{name}",
        description="Reads the last lines that a service has logged.",
        input_schema={
            "type": "object",
            "properties": {"service": {"type": "string"}, "limit": {"type": "integer"}},
        },
    )
    for name in ("logs", "restart")
)
_REQUEST = ModelRequest("bench-model", b"", "0" * 64, "1" * 64, "2" * 64)


@dataclass(frozen=True, slots=True)
class Played:
    """One boundary: what it holds, its row, its size as JSON, and the run's sums with it."""

    turn: int
    boundary: Boundary
    commit: NewCommit
    payload: int
    sums: TotalsRow


def first_records(run_uid: str, spec_hash: str) -> tuple[Record, ...]:
    """What the operator commits before the runner begins."""
    start = AttemptStart(attempt=1, fence=1, trace_id="0" * 32, span_id="0" * 16)
    return (RunStart(run_uid=run_uid, mode="prompt", spec_hash=spec_hash), start)


def play(count: int) -> tuple[Played, ...]:
    """The first ``count`` boundaries of the runner."""
    return tuple(islice(_play(), count))


def of_turns(played: Sequence[Played], first: int, last: int) -> Sequence[Played]:
    """The boundaries of these turns, both included."""
    return [each for each in played if first <= each.turn <= last]


def _play() -> Iterator[Played]:
    voices = Voices()
    state = fold(State(), OPERATOR, first_records("bench", "0" * 64))
    turn = 0
    while True:
        for step in next_steps(state, SPEC, Intent()):
            boundary = _boundary(step, state, voices)
            if isinstance(step, CallModel):
                turn = step.turn
            commit, payload = new_commit(boundary)
            sums = totals_row(totals.after(state.totals, boundary.records))
            fold(state, RUNNER, boundary.records)
            yield Played(turn, boundary, commit, payload, sums)


def _boundary(step: Step, state: State, voices: Voices) -> Boundary:
    if isinstance(step, OfferTools):
        offered = boundaries.tools_offered(state, step.agent, _OFFERS)
        assert offered is not None
        return offered
    if isinstance(step, CallModel):
        reply = voices.reply(step.turn)
        return boundaries.after_model(state, SPEC, step.conversation, _REQUEST, reply)
    if isinstance(step, RunTool):
        return boundaries.after_tool(state, step.call, voices.answer(step.call.turn))
    return boundaries.settle(step, state, SPEC)
