"""Combinations that would break a promise: of the record, of a budget, of a gate."""

from __future__ import annotations

from collections.abc import Container

from agentrun.api.spec import AgentRunSpec
from agentrun.api.tools import ApprovalMode, OnUnknown
from agentrun.api.validation.paths import Problems


def gated(spec: AgentRunSpec) -> bool:
    """Whether the run may have to wait for a person's decision."""
    gates = spec.approvals
    return bool(
        gates.plan
        or gates.rounds
        or gates.tasks
        or any(policy.approval is ApprovalMode.ALWAYS for policy in spec.tool_policies)
        or any(policy.on_unknown is OnUnknown.ASK for policy in spec.tool_policies)
        or any(agent.ask_human for agent in spec.agents)
    )


def recording_problems(spec: AgentRunSpec) -> Problems:
    """A run without checkpoints cannot wait, continue or verify.

    Redaction together with gates is refused, because what is reviewed must be what is run (design
    section 8).
    """
    if not spec.checkpoint.enabled:
        where = "spec.checkpoint.enabled: false cannot be combined with"
        if gated(spec):
            yield f"{where} approvals"
        if spec.session_id:
            yield f"{where} sessionId"
        if any(policy.on_unknown is not OnUnknown.RERUN for policy in spec.tool_policies):
            yield f"{where} onUnknown other than Rerun"
    if spec.checkpoint.redaction.enabled and gated(spec):
        yield "spec.checkpoint.redaction: cannot be combined with approvals"


def price_problems(spec: AgentRunSpec, priced: Container[object]) -> Problems:
    """A cost budget needs the price of every model of the run, or it never trips (hazard H36)."""
    if spec.limits.cost_usd is None or spec.pricing is not None:
        return
    models = [spec.model_of(agent).name for agent in spec.agents]
    if spec.goal is not None and spec.coordinator is not None and spec.coordinator.model:
        models.append(spec.coordinator.model.name or "")
    elif (spec.goal is not None or not models) and spec.model:
        models.append(spec.model.name)
    for name in dict.fromkeys(models):
        if name and name not in priced:
            yield (
                f"spec.limits.costUSD: the price of model {name} is not known; "
                "set spec.pricing or add the model to the operator's pricing"
            )
