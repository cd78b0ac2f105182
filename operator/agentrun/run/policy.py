"""Which policy holds for a tool, and whether a call's arguments fit the tool's schema."""

from __future__ import annotations

from dataclasses import dataclass

from agentrun.api import AgentRunSpec, ApprovalMode, OnUnknown
from agentrun.api.globs import matches
from agentrun.run.records import Json, ToolOffer
from agentrun.run.state import Call, State

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


def refusal(state: State, agent: str, call: Call) -> tuple[str, str] | None:
    """Why a call cannot be sent at all, as (origin, message for the model), or None.

    A reply that was cut at its token limit may hold half an argument: such calls are not sent.
    """
    offer = offer_of(state, agent, call.tool) if call.tool else None
    if offer is None:
        return "unavailable", f"There is no tool named {call.name!r}."
    if state.conversations[call.id.path].stop_reason == "max_tokens":
        return "invalid", "The reply was cut at its token limit; the call was not made. Repeat it."
    why = schema_problem(offer.input_schema, call.arguments)
    return ("invalid", f"The arguments do not fit the tool's schema: {why}") if why else None


def schema_problem(schema: Json, arguments: Json) -> str | None:
    """The first way in which arguments break a schema, or None.

    A schema that is itself broken, or refers to something outside itself, checks nothing: the
    server will judge. References are never fetched.
    """
    if not isinstance(arguments, dict):
        return "they are not an object"
    if not isinstance(schema, dict):
        return None
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError, best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema)
        error = best_match(Draft202012Validator(schema, registry=Registry()).iter_errors(arguments))
    except (SchemaError, Unresolvable, RecursionError):
        return None
    if error is None:
        return None
    where = "/".join(str(part) for part in error.absolute_path)
    rule = str(error.validator)
    return f"{where or 'arguments'}: {error.message[:300]} ({rule})"
