"""Names of what a runner finds in its environment, the same in a cluster and in local mode.

Both adapters set these variables and the runner reads them; nobody else spells the names out.
docs/architecture.md has the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

from agentrun.api import AgentRunSpec, ConfigMapKeyRef, EnvSource, ModelSpec, SecretKeyRef
from agentrun.api.model import merge_model

RUN_UID: Final = "AGENTRUN_RUN_UID"
FENCE: Final = "AGENTRUN_FENCE"
POD_UID: Final = "AGENTRUN_POD_UID"
NODE: Final = "AGENTRUN_NODE"
SECRET_DIR: Final = "AGENTRUN_SECRET_DIR"  # noqa: S105 - a name
WORKSPACE_SOCKET: Final = "AGENTRUN_WORKSPACE_SOCKET"
MODEL_URL: Final = "AGENTRUN_MODEL_URL"
CA_BUNDLE: Final = "AGENTRUN_CA_BUNDLE"
API_KEY: Final = "ANTHROPIC_API_KEY"
GRACE: Final = "AGENTRUN_GRACE_SECONDS"
TERMINATION_LOG: Final = "AGENTRUN_TERMINATION_LOG"
FAILPOINTS: Final = ("AGENTRUN_FAILPOINT", "AGENTRUN_FAILPOINT_DIR")
"""For tests only."""

LOG_LEVEL: Final = "AGENTRUN_LOG_LEVEL"
METRICS_PORT: Final = "AGENTRUN_METRICS_PORT"
TRACES: Final = "OTEL_"

INHERITED: Final = (*FAILPOINTS, MODEL_URL, LOG_LEVEL, "AGENTRUN_CLOCK_OFFSET")
"""Of our own variables, those that local runners take over from their user's environment."""

DSN_ENTRY: Final = "dsn"
ATTEMPT_ENTRY: Final = "secret"
"""The two files in ``AGENTRUN_SECRET_DIR``."""


def handed_on(name: str) -> bool:
    """Whether runner pods get this variable of the operator's own environment: how much they log,
    and where metrics and traces go. Headers for a collector are credentials, and anybody who may
    look at a pod reads its manifest."""
    if name.startswith(TRACES):
        return not name.endswith("_HEADERS")
    return name in (LOG_LEVEL, METRICS_PORT)


def header_variable(server: str, index: int) -> str:
    """Variable of one secret header: ``index`` counts the server's ``headersFrom`` from 0."""
    return f"AGENTRUN_HEADER_{server.upper().replace('-', '_')}_{index}"


def api_key_variable(spec: AgentRunSpec, ref: SecretKeyRef) -> str:
    """Variable of a model's API key: the plain name for ``spec.model``'s, one per key otherwise."""
    if spec.model is not None and spec.model.api_key_secret_ref == ref:
        return API_KEY
    return f"AGENTRUN_API_KEY_{_short(ref.name, ref.key)}"


def ca_bundle_variable(spec: AgentRunSpec, ref: ConfigMapKeyRef) -> str:
    """Variable that holds the path of a CA bundle; named as API keys are."""
    bundle = spec.model.ca_bundle if spec.model is not None else None
    if bundle is not None and bundle.config_map_key_ref == ref:
        return CA_BUNDLE
    return f"{CA_BUNDLE}_{_short(ref.name, ref.key)}"


def server_variable(server: str, name: str) -> str:
    """Variable of the runner that holds ``env[name]`` of a ``command`` server, where that has a
    ``valueFrom``: the server is the runner's child."""
    return f"AGENTRUN_ENV_{server.upper().replace('-', '_')}_{name}"


def secret_variables(spec: AgentRunSpec) -> Mapping[str, SecretKeyRef]:
    """Every variable of the runner whose value is in a user's Secret."""
    found: dict[str, SecretKeyRef] = {}
    for model in _models(spec):
        if (ref := model.api_key_secret_ref) is not None:
            found[api_key_variable(spec, ref)] = ref
    for server in spec.tool_servers:
        for index, header in enumerate(server.headers_from):
            found[header_variable(server.name, index)] = header.secret_key_ref
    for variable, source in _command_sources(spec):
        if source.secret_key_ref is not None:
            found[variable] = source.secret_key_ref
    return found


def config_variables(spec: AgentRunSpec) -> Mapping[str, ConfigMapKeyRef]:
    """Every variable of the runner whose value is in a ConfigMap, ``spec.pod.env`` aside."""
    return {
        variable: source.config_map_key_ref
        for variable, source in _command_sources(spec)
        if source.config_map_key_ref is not None
    }


def ca_bundles(spec: AgentRunSpec) -> Mapping[str, ConfigMapKeyRef]:
    """Every variable of the runner that holds the path of a CA bundle."""
    refs = (model.ca_bundle.config_map_key_ref for model in _models(spec) if model.ca_bundle)
    return {ca_bundle_variable(spec, ref): ref for ref in refs}


def _command_sources(spec: AgentRunSpec) -> Iterator[tuple[str, EnvSource]]:
    for server in spec.tool_servers:
        for variable in server.env if server.command is not None else ():
            if variable.value_from is not None:
                yield server_variable(server.name, variable.name), variable.value_from


def _models(spec: AgentRunSpec) -> Iterator[ModelSpec]:
    """The models that the run can use: its own, and those that agents make of it."""
    if spec.model is not None:
        yield spec.model
    for agent in spec.agents:
        yield spec.model_of(agent)
    if spec.coordinator is not None and spec.coordinator.model is not None:
        yield merge_model(spec.model, spec.coordinator.model)


def _short(name: str, key: str) -> str:
    return hashlib.sha256(f"{name}/{key}".encode()).hexdigest()[:10].upper()
