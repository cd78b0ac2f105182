"""What a client of the provider is made from. Checked here, before anything is imported."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import urlsplit

from agentrun.api import ModelSpec, Provider
from agentrun.errors import InvalidSpec
from agentrun.runner.hosts import is_local

OWN_ADDRESS = "https://api.anthropic.com"
NO_KEY = "none"
"""Sent to gateways and scripted models that need no key: the SDK insists on one."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. ``quiet`` bounds the time without content: pings do not count, or a stream of nothing
    but pings would never end; it is long because a model may think for minutes without a word.
    ``total`` bounds one try."""

    connect: float = 10.0
    quiet: float = 600.0
    total: float = 3600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Where requests go and with what. ``api_key`` is never shown."""

    provider: Provider
    url: str
    """Empty: the address follows from the provider (Bedrock, Vertex)."""
    api_key: str = field(repr=False)
    trust: ssl.SSLContext | None = None
    region: str = ""
    project: str = ""
    deadlines: Deadlines = Deadlines()

    @property
    def trust_env(self) -> bool:
        """Proxies of the environment are for the outside, never for this machine."""
        return not is_local(urlsplit(self.url).hostname or "")

    @property
    def place(self) -> str:
        """Host and port, for messages: an address may hold secrets in its other parts."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.hostname}{port}" if parts.hostname else self.provider.value


def settings(
    spec: ModelSpec,
    *,
    api_key: str | None,
    url_override: str | None,
    ca_bundle: str | None,
    deadlines: Deadlines,
) -> Settings:
    """An override speaks the Messages API itself, whatever provider the spec names.

    An address is always given explicitly, so that no environment variable can redirect the run.
    """
    provider = Provider.ANTHROPIC if url_override else spec.provider
    url = url_override or spec.base_url
    if provider is Provider.ANTHROPIC:
        url = url or OWN_ADDRESS
    else:
        _demand_extra(provider)
    where = spec.bedrock or spec.vertex
    return Settings(
        provider=provider,
        url=url,
        api_key=api_key or ("" if provider is not Provider.ANTHROPIC else NO_KEY),
        trust=_trust(ca_bundle) if ca_bundle else None,
        region=where.region if where else "",
        project=spec.vertex.project if spec.vertex else "",
        deadlines=deadlines,
    )


def _demand_extra(provider: Provider) -> None:
    module = {Provider.BEDROCK: "botocore", Provider.VERTEX: "google.auth"}[provider]
    if not _installed(module):
        raise InvalidSpec(
            f"model.provider {provider.value} needs the Python package {module}, which this image lacks",
            attempted="open the model",
            advice="Use a runner image with that provider's extra",
        )


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _trust(bundle: str) -> ssl.SSLContext:
    """Only the given certificates: a text in PEM, or the path of a file."""
    try:
        if "-----BEGIN" in bundle:
            return ssl.create_default_context(cadata=bundle)
        return ssl.create_default_context(cafile=bundle)
    except (OSError, ValueError) as error:
        raise InvalidSpec(
            f"model.caBundle cannot be read ({type(error).__name__})",
            attempted="open the model",
            advice="Give certificates in PEM",
        ) from None
