"""The Secret of one attempt, the same object in a cluster and in a state folder. Pure."""

from __future__ import annotations

from typing import Any, Final

from agentrun.api.names import ANNOTATION_FENCE, ANNOTATION_INSTALLATION, run_labels
from agentrun.cluster import environment as names
from agentrun.cluster.owner import owner_reference
from agentrun.cluster.values import AttemptSecret, record_uid

RUNNER_COMPONENT: Final = "runner"


def secret_manifest(secret: AttemptSecret, version: str = "") -> dict[str, Any]:
    """The attempt's Secret: immutable, owned by the run, labelled as the pod is."""
    labels = run_labels(
        secret.run.metadata.name,
        record_uid(secret),
        component=RUNNER_COMPONENT,
        version=version,
        attempt=secret.attempt,
    )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret.key.name,
            "namespace": secret.key.namespace,
            "labels": labels,
            "annotations": {
                ANNOTATION_FENCE: str(secret.fence),
                ANNOTATION_INSTALLATION: secret.installation,
            },
            "ownerReferences": [owner_reference(secret.run)],
        },
        "type": "Opaque",
        "immutable": True,
        "stringData": {names.DSN_ENTRY: secret.dsn, names.ATTEMPT_ENTRY: secret.secret},
    }
