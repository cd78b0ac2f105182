"""``AgentRun``: the custom resource itself."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from agentrun.api.base import ApiModel
from agentrun.api.meta import ObjectMeta
from agentrun.api.names import AGENTRUN_KIND, API_VERSION
from agentrun.api.spec import AgentRunSpec
from agentrun.api.status import AgentRunStatus


class AgentRun(ApiModel):
    """One agent run that survives its pods."""

    api_version: Literal["agentrun.dev/v1alpha1"] = Field(
        API_VERSION, description="Group and version."
    )
    kind: Literal["AgentRun"] = Field(AGENTRUN_KIND, description="Kind of the object.")
    metadata: ObjectMeta = Field(description="Object metadata.")
    spec: AgentRunSpec = Field(description="What to run.")
    status: AgentRunStatus | None = Field(None, description="What is known about the run.")

    def to_dict(self) -> dict[str, Any]:
        """The object as the API server takes it."""
        return {"apiVersion": self.api_version, "kind": self.kind, **super().to_dict()}
