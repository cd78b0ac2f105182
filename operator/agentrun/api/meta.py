"""Object metadata, and references to other objects of the namespace.

``ObjectMeta`` is Kubernetes' type, not ours: it grows with the cluster's version, so fields that
nothing here reads (managedFields and the like) are dropped instead of refused.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from agentrun.api.base import ApiModel
from agentrun.api.bounds import ConfigKey, Flag, Int, ObjectName, Time


class OwnerReference(ApiModel):
    """Who owns an object; the garbage collector deletes it when the owner is gone."""

    model_config = ConfigDict(extra="ignore")

    api_version: str = Field(description="Group and version of the owner.", max_length=253)
    kind: str = Field(description="Kind of the owner.", max_length=63)
    name: str = Field(description="Name of the owner.", max_length=253)
    uid: str = Field(description="UID of the owner.", max_length=128)
    controller: Flag = Field(False, description="Whether this owner manages the object.")
    block_owner_deletion: Flag = Field(
        False, description="Whether foreground deletion of the owner waits for the object."
    )


class ObjectMeta(ApiModel):
    """The part of Kubernetes' object metadata that is read here; the rest is ignored."""

    model_config = ConfigDict(extra="ignore")

    name: str = Field("", description="Name of the object.", max_length=253)
    generate_name: str = Field(
        "", description="Prefix from which the API server makes a name.", max_length=253
    )
    namespace: str = Field("", description="Namespace of the object.", max_length=63)
    uid: str = Field("", description="Identity of this very object.", max_length=128)
    resource_version: str = Field("", description="Opaque version for optimistic writes.")
    generation: Int = Field(0, description="Grows with each change of the spec.")
    creation_timestamp: Time | None = Field(None, description="When the object was created.")
    deletion_timestamp: Time | None = Field(
        None, description="Set once deletion was asked for: create nothing more for it."
    )
    labels: dict[str, str] = Field(default_factory=dict, description="Labels of the object.")
    annotations: dict[str, str] = Field(
        default_factory=dict, description="Annotations of the object."
    )
    owner_references: tuple[OwnerReference, ...] = Field((), description="Owners of the object.")

    @property
    def deleting(self) -> bool:
        """Whether deletion was asked for; then nothing may be created for it (hazard H24)."""
        return self.deletion_timestamp is not None


class ConfigMapKeyRef(ApiModel):
    """One key of a ConfigMap in the run's namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: ConfigKey = Field(description="Key inside the ConfigMap.")


class SecretKeyRef(ApiModel):
    """One key of a Secret in the run's namespace. Who starts the run must be able to read it."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: ConfigKey = Field(description="Key inside the Secret.")


class TextSource(ApiModel):
    """Text that lives in a ConfigMap; it is read once and recorded."""

    config_map_key_ref: ConfigMapKeyRef = Field(description="The ConfigMap and the key.")


class LocalRef(ApiModel):
    """An object of the same namespace, by name."""

    name: ObjectName = Field(description="Name of the object.")
