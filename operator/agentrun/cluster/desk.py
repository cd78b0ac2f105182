"""What a person does with runs, as a port: the command line works through it.

Two adapters: local (the state folder) and kube (the current context, with the caller's own rights).
Bound to one namespace. Errors are those of the cluster port, and InvalidSpec.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from agentrun.api import AgentRun, Approval


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply came to: ``created``, ``configured`` or ``unchanged``."""

    kind: str
    name: str
    outcome: str


@dataclass(frozen=True, slots=True)
class EventView:
    """An Event as a person reads it."""

    at: datetime
    type: str
    reason: str
    note: str
    count: int = 1


class Desk(Protocol):
    """Runs and approvals of one namespace, seen and changed by a person."""

    @property
    def namespace(self) -> str:
        """The namespace it is bound to."""
        ...

    async def apply(self, manifest: Mapping[str, Any]) -> Applied:
        """Create or update one object (AgentRun; locally also ConfigMap and Secret).

        InvalidSpec for what the API server would refuse, with the same message.
        """
        ...

    async def runs(self) -> Sequence[AgentRun]:
        """All runs, oldest first."""
        ...

    async def run(self, name: str) -> AgentRun:
        """One run; NotFound."""
        ...

    async def approvals(self) -> Sequence[Approval]:
        """All approvals, oldest first."""
        ...

    async def approval(self, name: str) -> Approval:
        """One approval; NotFound."""
        ...

    async def patch_run(self, name: str, spec: Mapping[str, Any]) -> AgentRun:
        """Merge into the spec: suspend, cancel, TTL, budgets."""
        ...

    async def decide(
        self, name: str, decision: str, *, reason: str = "", answer: str = ""
    ) -> Approval:
        """Write the decision fields, once and together; Rejected when they are written already."""
        ...

    async def delete_run(self, name: str) -> None:
        """Delete the object."""
        ...

    async def kill(self, name: str, signal: str) -> str:
        """Kill the current attempt: a signal to the local runner, a pod deletion with grace 0 in a
        cluster. Returns the pod's name; NotFound when no attempt runs."""
        ...

    def logs(self, name: str, *, attempt: int | None, follow: bool) -> AsyncIterator[str]:
        """Lines of an attempt's log, the latest by default."""
        ...

    async def events(self, name: str) -> Sequence[EventView]:
        """Events about a run, oldest first."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...
