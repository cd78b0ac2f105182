"""The two CustomResourceDefinitions as plain objects."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from agentrun.api.approval import Approval
from agentrun.api.crd.rules import (
    RUN_NAME,
    Rule,
    approval_rules,
    approval_spec_rules,
    run_spec_rules,
)
from agentrun.api.crd.schema import Schema, structural
from agentrun.api.names import (
    AGENTRUN_KIND,
    AGENTRUN_PLURAL,
    AGENTRUN_SHORT,
    AGENTRUN_SINGULAR,
    APPROVAL_KIND,
    APPROVAL_PLURAL,
    APPROVAL_SHORT,
    APPROVAL_SINGULAR,
    CATEGORY,
    GROUP,
    VERSION,
)
from agentrun.api.resource import AgentRun
from agentrun.api.validation.pending import PENDING, Row

Columns = list[dict[str, Any]]


def agentrun_crd() -> Schema:
    """The CRD of AgentRun."""
    columns = [
        column("Phase", ".status.phase"),
        column("Reason", ".status.reason"),
        column("Attempt", ".status.attempt", "integer"),
        column("Turns", ".status.usage.turns", "integer"),
        column("Tokens", ".status.usage.totalTokens", "integer"),
        column("Cost", ".status.usage.costUSD"),
        column("Age", ".metadata.creationTimestamp", "date"),
        column("Node", ".status.nodeName", wide=True),
        column("Seq", ".status.checkpoint.seq", "integer", wide=True),
        column("Message", ".status.message", wide=True),
    ]
    names = {
        "kind": AGENTRUN_KIND,
        "listKind": f"{AGENTRUN_KIND}List",
        "plural": AGENTRUN_PLURAL,
        "singular": AGENTRUN_SINGULAR,
        "shortNames": [AGENTRUN_SHORT],
        "categories": [CATEGORY],
    }
    schema = _root(AgentRun, list(RUN_NAME), run_spec_rules())
    for row in PENDING:
        _say_pending(schema, row)
    return _crd(names, columns, schema)


def approval_crd() -> Schema:
    """The CRD of Approval. EXPIRES is a string: a date column shows ``<invalid>`` for times that
    are still to come (hazard H59)."""
    columns = [
        column("Run", ".spec.runRef.name"),
        column("Scope", ".spec.scope"),
        column("Tool", ".spec.content.tool"),
        column("State", ".status.state"),
        column("By", ".spec.decidedBy"),
        column("Expires", ".spec.expiresAt"),
        column("Age", ".metadata.creationTimestamp", "date"),
    ]
    names = {
        "kind": APPROVAL_KIND,
        "listKind": f"{APPROVAL_KIND}List",
        "plural": APPROVAL_PLURAL,
        "singular": APPROVAL_SINGULAR,
        "shortNames": [APPROVAL_SHORT],
        "categories": [CATEGORY],
    }
    schema = _root(Approval, approval_rules(), approval_spec_rules())
    schema["properties"]["status"]["default"] = {}  # so that a new one is shown as Pending
    return _crd(names, columns, schema)


def column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> dict[str, Any]:
    """One printer column; ``wide`` ones show with ``-o wide``."""
    shown = {"name": name, "type": kind, "jsonPath": path}
    return {**shown, "priority": 1} if wide else shown


def _say_pending(schema: Schema, row: Row) -> None:
    """``kubectl explain`` tells what would be refused."""
    node = schema
    for part in row.field.split("."):
        node = node["properties"][part.removesuffix("[]")]
        node = node["items"] if part.endswith("[]") else node
    known = ", ".join(str(value).lower() if value is True else str(value) for value in row.works)
    note = f"In this release only {known}." if known else "Not available in this release."
    node["description"] = f"{node['description']} {note}"


def _root(model: type[BaseModel], rules: list[Rule], spec_rules: list[Rule]) -> Schema:
    """Schema of the whole object; metadata is Kubernetes' own and stays unspecified."""
    full = structural(model)
    properties = full["properties"]
    spec = dict(properties["spec"])
    inner = spec.pop("properties")
    spec["x-kubernetes-validations"] = spec_rules
    required = spec.pop("required", None)
    if required:
        spec["required"] = required
    spec["properties"] = inner
    return {
        "description": full["description"],
        "type": "object",
        "required": ["spec"],
        "x-kubernetes-validations": rules,
        "properties": {
            "apiVersion": {"description": "Group and version of the object.", "type": "string"},
            "kind": {"description": "Kind of the object.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": properties["status"],
        },
    }


def _crd(names: dict[str, Any], columns: Columns, schema: Schema) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
