"""Which model answers, where it is reached, and what its tokens cost."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, Strict

from agentrun.api.base import ApiModel
from agentrun.api.bounds import Decimal, Line, Url
from agentrun.api.meta import SecretKeyRef, TextSource

Retries = Annotated[int, Strict(), Field(ge=0, le=100)]


class Provider(StrEnum):
    """Who serves the model."""

    ANTHROPIC = "Anthropic"
    BEDROCK = "Bedrock"
    VERTEX = "Vertex"


class Bedrock(ApiModel):
    """Where Amazon Bedrock is reached."""

    region: Line = Field(description="AWS region.")


class Vertex(ApiModel):
    """Where Google Vertex AI is reached."""

    project: Line = Field(description="Google Cloud project.")
    region: Line = Field(description="Google Cloud region.")


class ModelSpec(ApiModel):
    """The model of every agent that does not say otherwise."""

    provider: Provider = Field(Provider.ANTHROPIC, description="Who serves the model.")
    name: Line = Field("", description="Model name as the provider spells it.")
    base_url: Url = Field(
        "", alias="baseURL", description="Address of a compatible gateway; empty: the provider's."
    )
    api_key_secret_ref: SecretKeyRef | None = Field(
        None, description="Secret of this namespace that holds the API key."
    )
    bedrock: Bedrock | None = Field(None, description="Settings for provider Bedrock.")
    vertex: Vertex | None = Field(None, description="Settings for provider Vertex.")
    ca_bundle: TextSource | None = Field(
        None, description="Certificates (PEM) that the gateway's certificate is checked against."
    )
    max_retries: Retries = Field(
        5, description="Retries of one model call inside an attempt (429, 529, 5xx, timeouts)."
    )


class ModelOverride(ApiModel):
    """What one agent's model differs in. It has no defaults: an absent field is the run's.

    A default here would be filled in by the API server and hide the run's own setting.
    """

    provider: Provider | None = Field(None, description="Who serves the model.")
    name: Line | None = Field(None, description="Model name as the provider spells it.")
    base_url: Url | None = Field(
        None, alias="baseURL", description="Address of a compatible gateway."
    )
    api_key_secret_ref: SecretKeyRef | None = Field(
        None, description="Secret of this namespace that holds the API key."
    )
    bedrock: Bedrock | None = Field(None, description="Settings for provider Bedrock.")
    vertex: Vertex | None = Field(None, description="Settings for provider Vertex.")
    ca_bundle: TextSource | None = Field(
        None, description="Certificates (PEM) that the gateway's certificate is checked against."
    )
    max_retries: Retries | None = Field(
        None, description="Retries of one model call inside an attempt."
    )


class Pricing(ApiModel):
    """US dollars per million tokens, as decimal strings. Overrides the operator's table."""

    input_per_m_tok: Decimal = Field(description="Price of a million input tokens.")
    output_per_m_tok: Decimal = Field(description="Price of a million output tokens.")
    cache_read_per_m_tok: Decimal | None = Field(
        None, description="Price of a million tokens read from the prompt cache."
    )
    cache_write_per_m_tok: Decimal | None = Field(
        None, description="Price of a million tokens written to the prompt cache."
    )


def merge_model(base: ModelSpec | None, override: ModelOverride | None) -> ModelSpec:
    """The model an agent really uses: ``override`` over ``base``, field by field."""
    own = override or ModelOverride()
    given = {
        name: value
        for name in ModelOverride.model_fields
        if (value := getattr(own, name)) is not None
    }
    return (base or ModelSpec()).model_copy(update=given)
