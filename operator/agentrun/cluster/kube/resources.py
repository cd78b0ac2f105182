"""The kinds that are used."""

from __future__ import annotations

from typing import Final

from agentrun.api.names import AGENTRUN_PLURAL, APPROVAL_PLURAL, GROUP, VERSION
from agentrun.cluster.kube.rest import Resource

RUNS: Final = Resource(f"/apis/{GROUP}/{VERSION}", AGENTRUN_PLURAL)
APPROVALS: Final = Resource(f"/apis/{GROUP}/{VERSION}", APPROVAL_PLURAL)
PODS: Final = Resource("/api/v1", "pods")
SECRETS: Final = Resource("/api/v1", "secrets")
CONFIGS: Final = Resource("/api/v1", "configmaps")
CLAIMS: Final = Resource("/api/v1", "persistentvolumeclaims")
NAMESPACES: Final = Resource("/api/v1", "namespaces")
EVENTS: Final = Resource("/apis/events.k8s.io/v1", "events")
WHO_AM_I: Final = Resource("/apis/authentication.k8s.io/v1", "selfsubjectreviews")
