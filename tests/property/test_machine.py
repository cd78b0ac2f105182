"""Any run, in any order of events: what is promised holds at every commit.

The machine is a runner and an operator without I/O. Steps with I/O are started, and end later or
never; everything else may happen in between: crashes, decisions, requests, budgets, resets, other
tools. Content is odd on purpose.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.property.odd import HALF, outcomes, replies
from tests.property.oracle import refused, same, totals_of
from tests.unit.run.pure_runner import PureRunner, make_spec, offer, text

from agentrun.errors import ModelRefused, ModelUnavailable
from agentrun.run import boundaries, codec
from agentrun.run.boundaries.tool import call_of
from agentrun.run.fold import OPERATOR, RUNNER, check, fold
from agentrun.run.policy import RERUN_MAX
from agentrun.run.records import AttemptEnd, Record, ToolResult
from agentrun.run.request import build_request
from agentrun.run.state import CallPhase, ConversationPhase, State
from agentrun.run.steps import CallModel, Finish, OfferTools, RefuseCall, RunTool, Step, Suspend
from agentrun.run.values import Boundary, Intent, Limits, ModelRequest, Question, Reply, ToolOutcome

OUTSIDE = (CallModel, RunTool, OfferTools)
STRICT = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 2}},
    "required": ["n"],
}
OFFERS = {
    "both": (offer("look"), offer("fix")),
    "strict": (offer("look"), offer("fix", STRICT)),
    "less": (offer("look"),),
    "odd": (offer("look", {"default": float("nan")}), offer("fix", {"$ref": "#"})),
}


class Runs(RuleBasedStateMachine):
    """One run."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = PureRunner(make_spec(), lambda turn, request: text("unused"))
        self.flying: dict[Step, ModelRequest | None] = {}
        self.records: list[Record] = []
        self.questions: dict[str, Question] = {}
        self.snapshot: tuple[int, codec.Encoded] | None = None
        self.sends: Counter[str] = Counter()
        self.attempts = 0
        self.gated: set[str] = set()
        self.unknown = "Rerun"

    @initialize(
        gated=st.sampled_from([[], ["ops.fix"], ["ops.*"]]),
        unknown=st.sampled_from(["Rerun", "Rerun", "Fail"]),
        position=st.sampled_from(["AfterTools", "AfterModel", "Both"]),
        turns=st.sampled_from([1, 3, 20, 20]),
        tokens=st.none() | st.integers(50, 300),
        exceeded=st.sampled_from(["Suspend", "Fail"]),
        data=st.data(),
        ahead=st.integers(0, 12),
    )
    def begin(
        self,
        gated: list[str],
        unknown: str,
        position: str,
        turns: int,
        tokens: int | None,
        exceeded: str,
        data: st.DataObject,
        ahead: int,
    ) -> None:
        agent: dict[str, Any] = {"name": "sre", "tools": ["ops.*"], "maxTurns": turns}
        if tokens is not None:
            agent["maxTokens"] = tokens
        always = [{"tools": gated, "approval": "Always", "onUnknown": unknown}] if gated else []
        self.runner = PureRunner(
            make_spec(
                agents=[agent],
                toolPolicies=[*always, {"tools": ["ops.*"], "onUnknown": unknown}],
                checkpoint={"position": position},
                limits={"onExceeded": exceeded},
            ),
            lambda turn, request: text("unused"),
        )
        self.unknown = unknown
        self.gated = {tool for tool in ("ops.look", "ops.fix") if {tool, "ops.*"} & {*gated}}
        self.mint()
        self.go_on(data, ahead)

    # What happens

    @precondition(lambda self: self.startable())
    @rule(data=st.data(), steps=st.integers(1, 6))
    def work(self, data: st.DataObject, steps: int) -> None:
        """Nothing happens but what the run wants."""
        self.go_on(data, steps)

    @precondition(lambda self: self.startable())
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        """The runner starts something that may run."""
        step = data.draw(st.sampled_from(self.startable()))
        request = None
        if isinstance(step, CallModel):
            request = build_request(self.state, self.runner.spec, step.conversation)
            assert refused(request.body) is None
        elif isinstance(step, RunTool):
            call = boundaries.outgoing(self.state, self.runner.spec, step.call)
            assert len(call.key) <= 80
            self.sends[call.key] += 1
            self.commit(
                boundaries.tool_started(
                    self.state, self.runner.spec, step.call, step.ordinal, call.timeout_ms
                )
            )
        self.flying[step] = request

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Something under way ends."""
        step = data.draw(st.sampled_from(list(self.flying)))
        request = self.flying.pop(step)
        if isinstance(step, OfferTools):
            offers = data.draw(st.sampled_from(["both", "both", "strict", "odd"]))
            self.commit(boundaries.tools_offered(self.state, step.agent, OFFERS[offers]))
        elif isinstance(step, RunTool):
            outcome: ToolOutcome = data.draw(outcomes)
            self.commit(boundaries.after_tool(self.state, step.call, outcome))
        else:
            assert isinstance(step, CallModel)
            assert request is not None
            reply: Reply = data.draw(replies())
            self.commit(
                boundaries.after_model(
                    self.state, self.runner.spec, step.conversation, request, reply
                )
            )

    @precondition(lambda self: any(isinstance(step, CallModel) for step in self.flying))
    @rule(error=st.sampled_from([ModelRefused(f"no {HALF}\x00"), ModelUnavailable("away")]))
    def no_reply(self, error: ModelRefused | ModelUnavailable) -> None:
        """The model refuses, or stays away for so long that the run gives its pod back."""
        step = next(step for step in self.flying if isinstance(step, CallModel))
        del self.flying[step]
        boundary = boundaries.model_failed(self.state, step.conversation, error)
        if boundary.last is not None:
            self.flying.clear()
        self.commit(boundary)

    @precondition(lambda self: self.working() and (self.flying or self.attempts < 5))
    @rule()
    def crash(self) -> None:
        """The process is gone with everything that it had not committed."""
        self.mint()

    @precondition(lambda self: self.working() and self.state.conversations)
    @rule(server=st.sampled_from(["ops", f"w{HALF}"]))
    def reset(self, server: str) -> None:
        """A tool server was restarted."""
        self.commit(boundaries.environment_reset(server, f"restarted {HALF}"))

    @precondition(lambda self: self.working() and "sre" in self.state.toolsets and not self.flying)
    @rule(offers=st.sampled_from(sorted(OFFERS)))
    def other_tools(self, offers: str) -> None:
        """A server offers something else."""
        self.commit(boundaries.tools_offered(self.state, "sre", OFFERS[offers]))

    @rule(
        intent=st.sampled_from(
            [
                Intent(),
                Intent("suspend", "User"),
                Intent("suspend", "Budget"),
                Intent(limits=Limits(turns=2)),
                Intent(limits=Limits(tokens=60)),
            ]
        )
    )
    def request(self, intent: Intent) -> None:
        """The user, or a budget."""
        if self.runner.intent.requested != "cancel":
            self.runner.intent = intent

    @precondition(lambda self: self.state.totals.turns > 1)
    @rule(reason=st.sampled_from(["User", "Deadline", "Budget"]))
    def cancel(self, reason: str) -> None:
        """Latched."""
        self.runner.intent = Intent("cancel", reason)

    @precondition(lambda self: self.state.suspended and self.pending() and not self.ended())
    @rule(data=st.data(), decision=st.sampled_from(["Approve", "Approve", "Deny", "Stale"]))
    def decide(self, data: st.DataObject, decision: str) -> None:
        """A person decides, and the operator consumes it."""
        question = self.questions[data.draw(st.sampled_from(self.pending()))]
        before = len(self.runner.commits)
        self.runner.decide(question, decision, f"because {HALF}")
        self.landed(before)

    @precondition(lambda self: self.state.suspended and not self.pending() and not self.ended())
    @rule()
    def resume(self) -> None:
        """Nothing keeps the run suspended."""
        self.runner.intent = Intent()
        self.mint()

    @precondition(lambda self: self.state.run_uid)
    @rule()
    def take_snapshot(self) -> None:
        """A snapshot of now."""
        self.snapshot = (len(self.runner.commits), codec.encode_state(self.state))

    # What holds

    @invariant()
    def holds(self) -> None:
        """Everything that is promised."""
        if self.runner.commits:
            self.the_record_is_the_state()
            self.there_is_a_way_on()
            self.a_waiting_conversation_can_be_sent()
            self.no_call_is_settled_twice()

    def the_record_is_the_state(self) -> None:
        folded = self.runner.folded()
        assert same(folded, self.state)
        check(folded)
        if self.snapshot is not None:
            at, encoded = self.snapshot
            state = codec.decode_state(encoded.codec, encoded.body, encoded.blobs)
            for origin, commit in self.runner.commits[at:]:
                fold(state, origin, codec.decode(commit.codec, commit.body, commit.blobs))
            assert same(state, self.state)
        assert self.state.totals == totals_of(self.records)

    def there_is_a_way_on(self) -> None:
        steps = self.runner.steps()
        assert steps == self.runner.steps()
        assert bool(steps) is self.working()
        assert len(steps) == len(set(steps))
        if any(isinstance(step, Suspend | Finish) for step in steps):
            assert len(steps) == 1
        for step in steps:
            if isinstance(step, RunTool | RefuseCall):
                self.may_have_a_result(step)

    def a_waiting_conversation_can_be_sent(self) -> None:
        for talk in self.state.conversations.values():
            if talk.phase is ConversationPhase.AWAITING_MODEL:
                request = build_request(self.state, self.runner.spec, talk.path)
                assert refused(request.body) is None, refused(request.body)

    def no_call_is_settled_twice(self) -> None:
        results = Counter(record.call for record in self.records if isinstance(record, ToolResult))
        assert set(results.values()) <= {1}
        most = 1 if self.unknown == "Fail" else RERUN_MAX + self.attempts
        assert all(count <= most for count in self.sends.values())

    def teardown(self) -> None:
        """Left alone, any run comes to its end or waits for somebody."""
        if not self.runner.commits:
            return
        self.flying.clear()
        note(f"{len(self.runner.commits)} commits, then it is left alone")
        self.runner.model = lambda turn, request: text("done")
        self.runner.run(limit=300)
        assert self.state.outcome is not None or self.state.suspended is not None

    # Help

    def go_on(self, data: st.DataObject, steps: int) -> None:
        for _ in range(steps):
            if self.startable():
                self.start(data)
                self.end(data)
                self.holds()

    @property
    def state(self) -> State:
        return self.runner.state

    def ended(self) -> bool:
        return self.state.outcome is not None

    def working(self) -> bool:
        return bool(self.state.run_uid) and not self.ended() and self.state.suspended is None

    def pending(self) -> list[str]:
        return [key for key, asked in self.state.approvals.items() if asked.decision is None]

    def startable(self) -> list[Step]:
        if not self.working():
            return []
        return [
            step
            for step in self.runner.steps()
            if isinstance(step, OUTSIDE) and step not in self.flying
        ]

    def may_have_a_result(self, step: RunTool | RefuseCall) -> None:
        """No call leaves before its decision, none after a denial (H67: its own)."""
        call = call_of(self.state, step.call)
        assert call.phase not in (CallPhase.AWAITING_APPROVAL, CallPhase.COMMITTED)
        if isinstance(step, RunTool):
            assert call.phase is not CallPhase.DENIED
            if call.tool in self.gated:
                assert call.approval is not None
                assert self.state.approvals[call.approval].decision == "Approve"

    def mint(self) -> None:
        self.flying.clear()
        before = len(self.runner.commits)
        if self.state.attempt:
            end = AttemptEnd(attempt=self.state.attempt, cause="PodLost", fault="Infra")
            self.runner.commit(OPERATOR, [end])
        self.runner.attempt()
        self.attempts += 1
        self.landed(before)
        self.settle()

    def commit(self, boundary: Boundary | None) -> None:
        """As the runner does it: the commit, then every step that needs nobody else."""
        if boundary is not None:
            self.append(boundary)
            self.settle()

    def settle(self) -> None:
        for _ in range(60):
            steps = self.runner.steps()
            last = [step for step in steps if isinstance(step, Suspend | Finish)]
            if last and self.flying:
                return
            inside = [step for step in steps if not isinstance(step, OUTSIDE)]
            if not inside:
                return
            for step in inside:
                self.append(boundaries.settle(step, self.state, self.runner.spec))
        raise AssertionError("it spins")

    def append(self, boundary: Boundary) -> None:
        before = len(self.runner.commits)
        self.questions.update({question.id: question for question in boundary.questions})
        self.runner.commit(RUNNER, boundary.records)
        self.landed(before)
        if boundary.last is not None:
            for words in (boundary.last.message, boundary.last.preview):
                words.encode("utf-8")
                assert "\x00" not in words

    def landed(self, before: int) -> None:
        for _, encoded in self.runner.commits[before:]:
            self.records.extend(codec.decode(encoded.codec, encoded.body, encoded.blobs))


Runs.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_runs = Runs.TestCase
