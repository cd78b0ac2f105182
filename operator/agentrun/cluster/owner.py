"""Ownership of what is created for a run."""

from __future__ import annotations

from typing import Any

from agentrun.api import AgentRun
from agentrun.api.names import AGENTRUN_KIND, API_VERSION


def owner_reference(run: AgentRun) -> dict[str, Any]:
    """The run as the controller of an object: by the UID of the object that exists now.

    The garbage collector deletes what it owns. Foreground deletion waits for it, so that a run that
    is really gone has no pod left.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": AGENTRUN_KIND,
        "name": run.metadata.name,
        "uid": run.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
