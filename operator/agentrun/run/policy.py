"""Which policy holds for a tool."""

from __future__ import annotations

from dataclasses import dataclass

from agentrun.api import AgentRunSpec, ApprovalMode, OnUnknown
from agentrun.api.globs import matches
from agentrun.run.records import ToolOffer
from agentrun.run.state import State

RERUN_MAX = 3
"""Sends of one call whose outcome stays unknown, before the model is told so."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for one tool."""

    approval: ApprovalMode = ApprovalMode.NEVER
    on_unknown: OnUnknown = OnUnknown.RERUN
    reason: str = ""


def policy_for(spec: AgentRunSpec, tool: str) -> Policy:
    """The first policy that matches ``server.tool`` wins; none: run it, re-run it."""
    server, _, name = tool.partition(".")
    for policy in spec.tool_policies:
        if any(matches(glob, server, name) for glob in policy.tools):
            return Policy(policy.approval, policy.on_unknown, policy.reason)
    return Policy()


def offer_of(state: State, agent: str, tool: str) -> ToolOffer | None:
    """The tool as it is offered to the agent now."""
    for offer in state.toolsets.get(agent, ()):
        if offer.tool == tool:
            return offer
    return None
