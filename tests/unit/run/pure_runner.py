"""A runner without I/O: it plays a run through the pure functions, one step at a time.

What the real runner does with a database, a model and tool servers is done here with lists and
functions, so that tests can stop it anywhere and start again from the commits alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentrun.api import AgentRunSpec
from agentrun.run import boundaries, codec
from agentrun.run.approvals import content_hash
from agentrun.run.fold import OPERATOR, RUNNER, fold
from agentrun.run.identity import CallId
from agentrun.run.next_steps import next_steps
from agentrun.run.records import (
    ApprovalDecision,
    AttemptStart,
    Json,
    Record,
    RunStart,
    ToolOffer,
    TraceLink,
    Usage,
)
from agentrun.run.request import build_request
from agentrun.run.state import State
from agentrun.run.steps import CallModel, OfferTools, RunTool, Step
from agentrun.run.values import (
    Boundary,
    Intent,
    ModelRequest,
    OutgoingCall,
    Question,
    Reply,
    Requested,
    ToolAnswer,
    ToolOutcome,
)

UID = "7f3a0000-0000-4000-8000-000000000001"


def make_spec(**changes: Json) -> AgentRunSpec:
    """A prompt with one agent and one tool server; ``changes`` in manifest spelling."""
    manifest: dict[str, Json] = {
        "prompt": "go",
        "agents": [{"name": "sre", "tools": ["ops.*"], "maxTurns": 100}],
        "model": {"name": "m"},
        "toolServers": [{"name": "ops", "url": "http://127.0.0.1:1/mcp"}],
        **changes,
    }
    return AgentRunSpec.model_validate(manifest)


def offer(name: str, schema: Json | None = None) -> ToolOffer:
    """A tool of the server ``ops``."""
    return ToolOffer(
        tool=f"ops.{name}", wire=f"ops__{name}", input_schema=schema or {"type": "object"}
    )


def text(words: str) -> Reply:
    """A reply that ends the conversation."""
    return Reply(
        [{"type": "text", "text": words}], (), "end_turn", "m", "msg", Usage(input_tokens=10)
    )


def asks(*names: str, turn: int = 0, arguments: Json | None = None) -> Reply:
    """A reply that asks for tools of ``ops``."""
    given = arguments if arguments is not None else {"n": turn}
    requested = tuple(
        Requested(f"toolu_{turn}_{index}", f"ops__{name}", given)
        for index, name in enumerate(names)
    )
    content = [
        {"type": "text", "text": f"turn {turn}"},
        *(
            {"type": "tool_use", "id": asked.id, "name": asked.name, "input": asked.arguments}
            for asked in requested
        ),
    ]
    return Reply(content, requested, "tool_use", "m", f"msg{turn}", Usage(input_tokens=10))


def says(words: str) -> ToolAnswer:
    """A tool's ordinary answer."""
    return ToolAnswer([{"type": "text", "text": words}], False, 1)


@dataclass
class PureRunner:
    """One run: its commits are all that survives a crash."""

    spec: AgentRunSpec
    model: Callable[[int, ModelRequest], Reply]
    tool: Callable[[OutgoingCall], ToolOutcome] = lambda call: says(f"did {call.tool}")
    offers: Sequence[ToolOffer] = (offer("look"), offer("fix"))
    intent: Intent = field(default_factory=Intent)
    commits: list[tuple[str, codec.Encoded]] = field(default_factory=list)
    state: State = field(default_factory=State)
    calls: list[OutgoingCall] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    boundaries: list[Boundary] = field(default_factory=list)

    def commit(self, origin: str, records: Sequence[Record]) -> None:
        """Encode, keep, decode, fold: what is not in the bytes is lost here as in life."""
        encoded = codec.encode(records)
        self.commits.append((origin, encoded))
        fold(self.state, origin, codec.decode(encoded.codec, encoded.body, encoded.blobs))

    def attempt(self) -> PureRunner:
        """The operator mints the next attempt."""
        records: list[Record] = []
        number = self.state.attempt + 1
        link = None
        if number == 1:
            records.append(RunStart(run_uid=UID, mode="prompt", spec_hash="h"))
        else:
            link = TraceLink(attempt=number - 1, trace_id="t", span_id="s", seq=len(self.commits))
        records.append(
            AttemptStart(
                attempt=number, fence=number, trace_id="t", span_id="s", continued_from=link
            )
        )
        self.commit(OPERATOR, records)
        return self

    def crash(self, keep: int | None = None) -> PureRunner:
        """Forget everything but the first ``keep`` commits, and start the next attempt."""
        del self.commits[keep if keep is not None else len(self.commits) :]
        self.state = self.folded()
        return self.attempt()

    def folded(self) -> State:
        """The state of the commits, from the beginning."""
        state = State()
        for origin, encoded in self.commits:
            fold(state, origin, codec.decode(encoded.codec, encoded.body, encoded.blobs))
        return state

    def steps(self) -> tuple[Step, ...]:
        """What may run now."""
        return next_steps(self.state, self.spec, self.intent)

    def do(self, step: Step) -> None:
        """Do one step and commit its boundary."""
        boundary = self._boundary(step)
        if boundary is not None:
            self.boundaries.append(boundary)
            self.questions.extend(boundary.questions)
            self.commit(RUNNER, boundary.records)

    def _boundary(self, step: Step) -> Boundary | None:
        if isinstance(step, OfferTools):
            return boundaries.tools_offered(self.state, step.agent, self.offers)
        if isinstance(step, CallModel):
            request = build_request(self.state, self.spec, step.conversation)
            self.requests.append(request.request_hash)
            reply = self.model(step.turn, request)
            return boundaries.after_model(self.state, self.spec, step.conversation, request, reply)
        if isinstance(step, RunTool):
            call = boundaries.outgoing(self.state, self.spec, step.call)
            self.calls.append(call)
            return boundaries.after_tool(self.state, step.call, self.tool(call))
        return boundaries.settle(step, self.state, self.spec)

    def run(self, pick: Callable[[int], int] = lambda count: 0, limit: int = 2000) -> PureRunner:
        """Until nothing may run. ``pick`` chooses among the steps that may run at once."""
        for _ in range(limit):
            steps = self.steps()
            if not steps:
                return self
            self.do(steps[pick(len(steps))])
        raise AssertionError("the run does not end")

    def decide(self, question: Question, decision: str, reason: str = "") -> None:
        """The operator consumes a decision."""
        self.commit(
            OPERATOR,
            [ApprovalDecision(id=question.id, decision=decision, decided_by="ann", reason=reason)],
        )

    @property
    def transcript(self) -> list[Json]:
        """The main conversation."""
        return self.state.conversations["main"].messages


def main_call(turn: int, index: int) -> CallId:
    """A call of the main task's first try."""
    return CallId("main", 1, turn, index)


__all__ = [
    "UID",
    "PureRunner",
    "asks",
    "content_hash",
    "main_call",
    "make_spec",
    "offer",
    "says",
    "text",
]
