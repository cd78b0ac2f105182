"""Tool servers (all of them speak MCP) and the policies on their tools."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, Strict

from agentrun.api.base import ApiModel, cel, keyed, rules
from agentrun.api.bounds import ImageRef, Note, Opaque, Quantity, Seconds, ServerName, ToolGlob, Url
from agentrun.api.meta import ConfigMapKeyRef, SecretKeyRef

DEFAULT_PORT = 8080
DEFAULT_PATH = "/mcp"

Port = Annotated[int, Strict(), Field(ge=1, le=65_535)]
HeaderName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9-]+$")]
EnvName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Argument = Annotated[str, Field(max_length=4096)]
HttpPath = Annotated[str, Field(max_length=512, pattern=r"^(/[^\s]*)?$")]


class Persistence(StrEnum):
    """What becomes of the workspace's files when the pod is replaced."""

    RECORD = "Record"
    VOLUME = "Volume"
    NONE = "None"


class ImagePullPolicy(StrEnum):
    """When the node pulls the image."""

    IF_NOT_PRESENT = "IfNotPresent"
    ALWAYS = "Always"
    NEVER = "Never"


class ApprovalMode(StrEnum):
    """Whether a call waits for a person."""

    NEVER = "Never"
    ALWAYS = "Always"


class OnUnknown(StrEnum):
    """What is done about a call that was started and has no result."""

    RERUN = "Rerun"
    VERIFY = "Verify"
    ASK = "Ask"
    FAIL = "Fail"


class EnvSource(ApiModel):
    """Where an environment variable's value comes from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "has(self.secretKeyRef) != has(self.configMapKeyRef)",
                "give exactly one of secretKeyRef and configMapKeyRef",
            )
        )
    )

    secret_key_ref: SecretKeyRef | None = Field(None, description="A Secret's key.")
    config_map_key_ref: ConfigMapKeyRef | None = Field(None, description="A ConfigMap's key.")


class EnvVar(ApiModel):
    """One environment variable, in the shape Kubernetes uses."""

    name: EnvName = Field(description="Name of the variable.")
    value: Argument = Field("", description="Its value.")
    value_from: EnvSource | None = Field(None, description="Where its value comes from.")


class HeaderFrom(ApiModel):
    """One HTTP header whose value is secret."""

    name: HeaderName = Field(description="Name of the header.")
    secret_key_ref: SecretKeyRef = Field(description="The Secret's key that holds the value.")


class Workspace(ApiModel):
    """The bundled server for files and shell, a sidecar of its own."""

    persistence: Persistence = Field(
        Persistence.RECORD,
        description="Record keeps changed files with the run's record, Volume uses a volume, "
        "None starts every attempt empty and tells the model.",
    )
    size_limit: Quantity = Field("64Mi", description="Upper bound on the workspace's files.")
    image: ImageRef = Field("", description="Image of the sidecar; empty: the operator's.")
    resources: Opaque | None = Field(None, description="Container resources of the sidecar.")


_KINDS = "[has(self.url), has(self.image), has(self.command), has(self.workspace)]"


class ToolServer(ApiModel):
    """One MCP server: exactly one of url, image, command and workspace."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                f"{_KINDS}.filter(given, given).size() == 1",
                "give exactly one of url, image, command and workspace",
            )
        )
    )

    name: ServerName = Field(description="Name of the server: the part of a tool before the dot.")
    url: Annotated[Url, Field(min_length=1)] | None = Field(
        None, description="A remote server, spoken to over streamable HTTP."
    )
    headers_from: Annotated[tuple[HeaderFrom, ...], Field(max_length=16)] = Field(
        (), description="Secret headers sent to the url.", json_schema_extra=keyed("name")
    )
    image: Annotated[ImageRef, Field(min_length=1)] | None = Field(
        None, description="A sidecar of the runner pod, spoken to over its port."
    )
    port: Port | None = Field(None, description="Port of the image's server; absent: 8080.")
    path: HttpPath = Field("", description="HTTP path of the image's server; empty: /mcp.")
    args: Annotated[tuple[Argument, ...], Field(max_length=64)] = Field(
        (), description="Arguments of the image."
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=64)] = Field(
        (), description="Environment of the image or command.", json_schema_extra=keyed("name")
    )
    resources: Opaque | None = Field(None, description="Container resources of the image.")
    image_pull_policy: ImagePullPolicy = Field(
        ImagePullPolicy.IF_NOT_PRESENT, description="When the node pulls the image."
    )
    command: Annotated[tuple[Argument, ...], Field(min_length=1, max_length=64)] | None = Field(
        None, description="A child process over stdio: local mode, or where the operator allows it."
    )
    workspace: Workspace | None = Field(None, description="The bundled server for files and shell.")
    timeout_seconds: Seconds = Field(
        60, description="Time one call may take before its outcome is unknown."
    )

    @property
    def forgets(self) -> bool:
        """Whether what it held is gone with the pod: nobody else keeps it."""
        if self.workspace is not None:
            return self.workspace.persistence is Persistence.NONE
        return self.url is None


class ToolPolicy(ApiModel):
    """What holds for the tools that match. Of several policies the first match wins."""

    tools: Annotated[tuple[ToolGlob, ...], Field(min_length=1, max_length=64)] = Field(
        description="server.tool, with * and ? as wildcards."
    )
    approval: ApprovalMode = Field(
        ApprovalMode.NEVER, description="Whether each call waits for a person."
    )
    on_unknown: OnUnknown = Field(
        OnUnknown.RERUN, description="What is done about a call that has no result after a crash."
    )
    verify_with: Annotated[str, Field(max_length=192, pattern=r"^([a-z0-9-]{1,24}\.[^\s]+)?$")] = (
        Field("", description="With onUnknown Verify: the tool that tells whether it happened.")
    )
    reason: Note = Field("", description="Why, shown to whoever decides.")


__all__ = [
    "DEFAULT_PATH",
    "DEFAULT_PORT",
    "ApprovalMode",
    "EnvSource",
    "EnvVar",
    "HeaderFrom",
    "ImagePullPolicy",
    "OnUnknown",
    "Persistence",
    "ToolPolicy",
    "ToolServer",
    "Workspace",
]
