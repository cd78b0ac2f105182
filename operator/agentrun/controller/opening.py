"""Making the row of a run: what its spec refers to is looked up once and recorded."""

from __future__ import annotations

from agentrun.api import AgentRunSpec, Pricing, Reason, TextSource
from agentrun.cluster.values import ObjectKey
from agentrun.controller.actions import OpenRun
from agentrun.controller.context import Context, Pass
from agentrun.controller.plan.budgets import budgets_of
from agentrun.errors import Forbidden, NotFound
from agentrun.run.capture import Resolved, capture
from agentrun.store.port import NewRun
from agentrun.store.rows import Requested


async def open_run(context: Context, at: Pass, _action: OpenRun) -> None:
    """The row as this object asks for it; the store never overwrites one that is there.

    Texts that are not there yet are waited for, and the status says for which; a run that is
    cancelled meanwhile will never need them.
    """
    meta, spec = at.run.metadata, at.run.spec
    try:
        resolved = await resolve(context, meta.namespace, spec)
    except (NotFound, Forbidden) as error:
        if not spec.cancel:
            context.ledger.troubled(meta.uid, Reason.CONTAINER_CONFIG, str(error))
            at.moved = at.stop = True
            return
        resolved = Resolved(pricing=price(context, spec))
    captured = capture(spec, resolved)
    requested, reason = first_desired(spec)
    row = await context.store.open_run(
        NewRun(
            run_uid=meta.uid,
            object_uid=meta.uid,
            installation=context.settings.installation,
            namespace_uid=await namespace_uid(context, meta.namespace),
            namespace=meta.namespace,
            name=meta.name,
            run_id=spec.run_id or meta.uid,
            spec=captured.spec,
            spec_hash=captured.spec_hash,
            generation=meta.generation,
            lease_ttl_ms=spec.lease.ttl_seconds * 1000,
            requested=requested,
            requested_reason=reason,
            budgets=budgets_of(priced(spec, resolved)),
        )
    )
    context.ledger.untroubled(meta.uid)
    at.took(row)


def priced(spec: AgentRunSpec, resolved: Resolved) -> AgentRunSpec:
    """The spec with the price that the run will be counted in."""
    if resolved.pricing is None:
        return spec
    return spec.model_copy(update={"pricing": resolved.pricing})


def first_desired(spec: AgentRunSpec) -> tuple[Requested, str]:
    """What a run that nobody has started yet is asked for."""
    if spec.cancel:
        return Requested.CANCEL, "User"
    return (Requested.SUSPEND, "User") if spec.suspend else (Requested.RUN, "")


async def resolve(context: Context, namespace: str, spec: AgentRunSpec) -> Resolved:
    """Prompt, instructions and price. NotFound names what is missing."""
    prompt = await _text(context, namespace, spec.prompt_from) if spec.prompt_from else None
    instructions = {
        agent.name: await _text(context, namespace, agent.instructions_from)
        for agent in spec.agents
        if agent.instructions_from is not None
    }
    return Resolved(prompt, instructions, price(context, spec))


async def _text(context: Context, namespace: str, source: TextSource) -> str:
    ref = source.config_map_key_ref
    return await context.cluster.get_config(ObjectKey(namespace, ref.name), ref.key)


def price(context: Context, spec: AgentRunSpec) -> Pricing | None:
    """The operator's price of the model that a prompt's agent uses, unless the run has its own."""
    agent = spec.entry_agent
    if spec.pricing is not None or agent is None:
        return None
    return context.settings.policy.pricing.get(spec.model_of(agent).name)


async def namespace_uid(context: Context, namespace: str) -> str:
    """One read a namespace, not one a run."""
    uid = context.ledger.namespace_uid(namespace)
    if uid is None:
        uid = await context.cluster.namespace_uid(namespace)
        context.ledger.remember_namespace(namespace, uid)
    return uid
