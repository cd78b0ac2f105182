"""The spec as it is captured at the first mint: the truth for the run's whole life.

What the spec refers to (a prompt or instructions in a ConfigMap, the operator's price table) is
resolved and recorded once, so that later attempts and later operators see the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from agentrun.api import AgentRunSpec, Pricing
from agentrun.errors import CheckpointCorrupt, CheckpointNewer
from agentrun.run.exact import canonical_json, parse_json, sha256_hex
from agentrun.run.records import SCHEMA_VERSION, Json


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the operator looked up. ``instructions`` by agent name."""

    prompt: str | None = None
    instructions: Mapping[str, str] = field(default_factory=dict)
    pricing: Pricing | None = None


@dataclass(frozen=True, slots=True)
class Captured:
    """Bytes for the run row and their hash."""

    spec: bytes
    spec_hash: str


def capture(spec: AgentRunSpec, resolved: Resolved) -> Captured:
    """The row's spec: what was written, beside what it referred to."""
    value: dict[str, Json] = {
        "v": SCHEMA_VERSION,
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True),
        "prompt": resolved.prompt,
        "instructions": dict(resolved.instructions),
        "pricing": resolved.pricing.model_dump(by_alias=True) if resolved.pricing else None,
    }
    data = canonical_json(value)
    return Captured(data, sha256_hex(data))


def captured_spec(data: bytes, spec_hash: str) -> AgentRunSpec:
    """The spec with everything resolved. CheckpointCorrupt, CheckpointNewer."""
    if sha256_hex(data) != spec_hash:
        raise CheckpointCorrupt("its hash does not match", attempted="read the captured spec")
    try:
        value = parse_json(data)
        if value["v"] > SCHEMA_VERSION:
            raise CheckpointNewer(
                f"captured with version {value['v']}, this release reads {SCHEMA_VERSION}",
                attempted="read the captured spec",
                advice="Run it with an image of the newer release.",
            )
        spec = AgentRunSpec.model_validate(value["spec"])
        pricing = value["pricing"]
        return _resolved(
            spec,
            Resolved(
                value["prompt"],
                value["instructions"],
                Pricing.model_validate(pricing) if pricing is not None else None,
            ),
        )
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        raise CheckpointCorrupt(
            f"does not validate ({type(error).__name__})", attempted="read the captured spec"
        ) from None


def _resolved(spec: AgentRunSpec, resolved: Resolved) -> AgentRunSpec:
    agents = tuple(
        agent.model_copy(update={"instructions": resolved.instructions[agent.name]})
        if agent.name in resolved.instructions
        else agent
        for agent in spec.agents
    )
    changes: dict[str, object] = {"agents": agents}
    if resolved.prompt is not None:
        changes["prompt"] = resolved.prompt
    if resolved.pricing is not None:
        changes["pricing"] = resolved.pricing
    return spec.model_copy(update=changes)
