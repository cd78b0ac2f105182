"""``AgentRun.spec``: what to run.

It is immutable except for suspend, cancel, ttlSecondsAfterFinished and the budgets; the CRD
enforces that with one rule made from ``MUTABLE_FIELDS`` and ``MUTABLE_LIMITS``.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, Strict

from agentrun.api.agent import AgentSpec
from agentrun.api.base import ApiModel, inline, keyed
from agentrun.api.bounds import (
    Flag,
    InlineText,
    MetadataKey,
    Note,
    OptionalAgentName,
    OptionalId,
    RunId,
    User,
)
from agentrun.api.checkpoint import Checkpoint
from agentrun.api.gates import Gates
from agentrun.api.limits import Lease, Limits, Retention
from agentrun.api.meta import TextSource
from agentrun.api.model import ModelSpec, Pricing, merge_model
from agentrun.api.pod import RunnerPod
from agentrun.api.tasks import Coordinator, ForkFrom, PlanSource, Swarm, TaskSpec
from agentrun.api.tools import ToolPolicy, ToolServer

MODES: Final = ("prompt", "prompt_from", "tasks", "goal", "plan_from", "swarm", "fork_from")
"""Attributes of which a run has exactly one."""

MUTABLE_FIELDS: Final = ("suspend", "cancel", "ttl_seconds_after_finished")
MUTABLE_LIMITS: Final = ("turns", "tokens", "cost_usd", "active_deadline_seconds")

Ttl = Annotated[int, Strict(), Field(ge=0, le=315_360_000)]


class AgentRunSpec(ApiModel):
    """What to run. Exactly one of the seven modes is given."""

    controller_name: OptionalId = Field(
        "", description="Installation that works on this run; empty: the default one."
    )
    run_id: RunId | None = Field(
        None, description="Logical identity, unique in the namespace; absent: the object's UID."
    )
    requested_by: User = Field("", description="Who started the run; stamped by the API server.")
    metadata: Annotated[dict[MetadataKey, Note], Field(max_length=32)] = Field(
        default_factory=dict, description="Run metadata, inherited by restore and fork."
    )

    prompt: InlineText | None = Field(
        None, description="What one agent is to do.", json_schema_extra=inline()
    )
    prompt_from: TextSource | None = Field(
        None, description="The prompt from a ConfigMap, recorded once."
    )
    tasks: Annotated[tuple[TaskSpec, ...], Field(max_length=300)] = Field(
        (), description="A graph of tasks.", json_schema_extra=keyed("name")
    )
    goal: InlineText | None = Field(None, description="A goal that a coordinator plans for.")
    plan_only: Flag = Field(False, description="With goal: stop after the plan.")
    plan_from: PlanSource | None = Field(None, description="A reviewed plan to replay exactly.")
    swarm: Swarm | None = Field(None, description="One conversation that moves between agents.")
    fork_from: ForkFrom | None = Field(
        None, description="Go on from a commit of another run of this namespace."
    )
    coordinator: Coordinator | None = Field(
        None, description="With goal: who plans and writes the result."
    )

    agent: OptionalAgentName = Field(
        "", description="With prompt: the agent, when there is more than one."
    )
    agents: Annotated[tuple[AgentSpec, ...], Field(max_length=32)] = Field(
        (), description="The agents.", json_schema_extra=keyed("name")
    )
    model: ModelSpec | None = Field(
        None, description="Model of every agent that does not say otherwise."
    )
    pricing: Pricing | None = Field(
        None, description="Token prices of this run; absent: the operator's table."
    )
    tool_servers: Annotated[tuple[ToolServer, ...], Field(max_length=16)] = Field(
        (), description="The tool servers (MCP).", json_schema_extra=keyed("name")
    )
    tool_policies: Annotated[tuple[ToolPolicy, ...], Field(max_length=64)] = Field(
        (), description="Policies on tools; the first match wins."
    )
    approvals: Gates = Field(Gates(), description="Where the run waits for people.")
    checkpoint: Checkpoint = Field(Checkpoint(), description="How the run is recorded.")
    limits: Limits = Field(Limits(), description="Faults, deadlines and budgets.")
    lease: Lease = Field(Lease(), description="How an attempt holds the run.")
    session_id: OptionalId = Field(
        "", description="Continue this conversation across runs; empty: no session."
    )
    suspend: Flag = Field(False, description="Stop at the next boundary and wait. Mutable.")
    cancel: Flag = Field(False, description="End the run. Mutable, and never taken back.")
    ttl_seconds_after_finished: Ttl | None = Field(
        None, description="Delete the object so long after it finished; absent: keep it. Mutable."
    )
    retention: Retention = Field(
        Retention(), description="How long the record outlives the object."
    )
    pod: RunnerPod = Field(RunnerPod(), description="The runner pod.")

    @property
    def modes(self) -> tuple[str, ...]:
        """Attribute names of the modes that are given; one in a valid spec."""
        return tuple(mode for mode in MODES if getattr(self, mode) not in (None, ()))

    @property
    def entry_agent(self) -> AgentSpec | None:
        """The agent of a prompt: ``agent`` by name, or the only one; None if that is nobody."""
        if not self.agent:
            return self.agents[0] if len(self.agents) == 1 else None
        return next((agent for agent in self.agents if agent.name == self.agent), None)

    def model_of(self, agent: AgentSpec) -> ModelSpec:
        """The model that ``agent`` uses, its own settings over the run's."""
        return merge_model(self.model, agent.model)
