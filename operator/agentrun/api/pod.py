"""Settings of the runner pod. The administrator's allow-lists are checked by the operator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from agentrun.api.base import ApiModel, keyed
from agentrun.api.bounds import ImageRef, LabelValue, Opaque, OptionalObjectName, QualifiedKey
from agentrun.api.meta import LocalRef
from agentrun.api.tools import EnvVar

GraceSeconds = Annotated[int, Strict(), Field(ge=1, le=86_400)]
AnnotationValue = Annotated[str, Field(max_length=4096)]


class RunnerPod(ApiModel):
    """``spec.pod``: how the runner pod is placed and dressed."""

    image: ImageRef = Field("", description="Runner image; empty: the operator's.")
    image_pull_secrets: Annotated[tuple[LocalRef, ...], Field(max_length=8)] = Field(
        (), description="Secrets to pull images with.", json_schema_extra=keyed("name")
    )
    resources: Opaque | None = Field(None, description="Container resources of the runner.")
    node_selector: Annotated[dict[QualifiedKey, LabelValue], Field(max_length=32)] = Field(
        default_factory=dict, description="Labels a node must have."
    )
    tolerations: Annotated[tuple[Opaque, ...], Field(max_length=32)] = Field(
        (), description="Taints the pod tolerates, as in a pod."
    )
    affinity: Opaque | None = Field(None, description="Affinity, as in a pod.")
    priority_class_name: OptionalObjectName = Field("", description="Priority class of the pod.")
    runtime_class_name: OptionalObjectName = Field("", description="Runtime class of the pod.")
    labels: Annotated[dict[QualifiedKey, LabelValue], Field(max_length=32)] = Field(
        default_factory=dict, description="Further labels; reserved prefixes are refused."
    )
    annotations: Annotated[dict[QualifiedKey, AnnotationValue], Field(max_length=32)] = Field(
        default_factory=dict, description="Further annotations; reserved prefixes are refused."
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=32)] = Field(
        (),
        description="Environment of the runner; allow-listed names only.",
        json_schema_extra=keyed("name"),
    )
    service_account_name: OptionalObjectName = Field(
        "", description="Service account; allow-listed by the operator."
    )
    termination_grace_period_seconds: GraceSeconds = Field(
        30, description="Time a stopped runner has to finish a short call and commit."
    )
