"""Features whose fields exist and whose behaviour comes in a later release.

One row per feature. A field that would be ignored is refused instead, and a row is removed in the
commit that makes the feature work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from agentrun.api.limits import Retention
from agentrun.api.spec import AgentRunSpec
from agentrun.api.validation.paths import Problems


@dataclass(frozen=True, slots=True)
class Row:
    """One field and what it would do, with its verb. ``works`` are the values that work already.

    Without ``works`` the field must be absent: unset, empty or false.
    """

    field: str
    feature: str
    works: tuple[object, ...] = ()


PENDING: Final = (
    Row("spec.runId", "adoption of a record by runId is"),
    Row("spec.tasks", "task graphs are"),
    Row("spec.goal", "goals are"),
    Row("spec.planFrom", "plans are"),
    Row("spec.swarm", "swarms are"),
    Row("spec.forkFrom", "forks are"),
    Row("spec.coordinator", "coordinators are"),
    Row("spec.planOnly", "plans are"),
    Row("spec.sessionId", "sessions are"),
    Row("spec.agents[].delegates", "delegates are"),
    Row("spec.agents[].askHuman", "questions to people are"),
    Row("spec.agents[].outputSchema", "structured results are"),
    Row("spec.agents[].context.strategy", "context strategies other than None are", ("None",)),
    Row("spec.agents[].context.maxTokens", "context strategies are"),
    Row("spec.agents[].context.keepTurns", "context strategies are"),
    Row("spec.agents[].model.provider", "providers other than Anthropic are", ("Anthropic",)),
    Row("spec.model.provider", "providers other than Anthropic are", ("Anthropic",)),
    Row("spec.toolServers[].workspace.persistence", "workspace volumes are", ("Record", "None")),
    Row("spec.toolPolicies[].onUnknown", "values other than Rerun are", ("Rerun",)),
    Row("spec.toolPolicies[].verifyWith", "verifying tools are"),
    Row("spec.approvals.plan", "plan gates are"),
    Row("spec.approvals.rounds", "round gates are"),
    Row("spec.approvals.tasks", "task gates are"),
    Row("spec.approvals.expiresAfterSeconds", "expiring approvals are"),
    Row("spec.approvals.onTimeout", "values other than Deny are", ("Deny",)),
    Row("spec.approvals.approvers.users", "lists of approvers are"),
    Row("spec.approvals.approvers.groups", "lists of approvers are"),
    Row("spec.approvals.separationOfDuties", "separation of duties is"),
    Row("spec.checkpoint.enabled", "runs without checkpoints are", (True,)),
    Row("spec.checkpoint.journal", "records without their journal are", (True,)),
    Row("spec.checkpoint.redaction.enabled", "redaction is"),
    Row("spec.checkpoint.redaction.patterns", "redaction patterns are"),
    Row("spec.retention.contentSeconds", "other times are", (Retention().content_seconds,)),
    Row("spec.retention.auditSeconds", "other times are", (Retention().audit_seconds,)),
)


def pending_problems(spec: AgentRunSpec) -> Problems:
    """One message for each field that asks for what this release cannot do yet."""
    tree = {"spec": spec.model_dump(by_alias=True)}
    for row in PENDING:
        for where, value in _values(tree, row.field.split("."), ""):
            if not _works(value, row):
                yield f"{where}: {row.feature} not available in this release"


def _works(value: object, row: Row) -> bool:
    if value is None:
        return True
    plain = value.value if isinstance(value, StrEnum) else value
    return plain in row.works if row.works else not plain


def _values(node: Any, parts: Sequence[str], where: str) -> Iterator[tuple[str, object]]:
    """The values at a path, each with where it is; ``[]`` stands for every item of a list."""
    if not parts:
        yield where, node
        return
    name, many = parts[0].removesuffix("[]"), parts[0].endswith("[]")
    child = node.get(name) if isinstance(node, Mapping) else None
    here = f"{where}.{name}" if where else name
    if child is None:
        return
    if not many:
        yield from _values(child, parts[1:], here)
        return
    for index, item in enumerate(child):
        yield from _values(item, parts[1:], f"{here}[{index}]")
