"""Output schemas are valid JSON Schemas. Apart, because jsonschema takes long to import."""

from __future__ import annotations

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from agentrun.api.spec import AgentRunSpec
from agentrun.api.validation.paths import Problems, dotted


def schema_problems(spec: AgentRunSpec) -> Problems:
    """Every outputSchema is a JSON Schema (2020-12)."""
    for index, agent in enumerate(spec.agents):
        if agent.output_schema is None:
            continue
        try:
            Draft202012Validator.check_schema(agent.output_schema)
        except SchemaError as error:
            inside = dotted(error.absolute_path)
            yield (
                f"spec.agents[{index}].outputSchema: no valid JSON Schema"
                + (f" at {inside}" if inside else "")
            )
