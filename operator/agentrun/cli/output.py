"""How objects are shown: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
import yaml
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from agentrun.api import AgentRun, Approval

FORMATS = click.Choice(["table", "wide", "json", "yaml", "name"])
output_option = click.option("-o", "--output", type=FORMATS, default="table", help="Format.")


def visible(text: str) -> str:
    """Text that a terminal may show: what models and tools say cannot move its cursor."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text
    )


def document(item: AgentRun | Approval) -> dict[str, Any]:
    """The object as the API would return it: its defaults filled in, what is absent left out."""
    whole = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _without_absent(item, whole)


def _without_absent(model: BaseModel, dumped: dict[str, Any]) -> dict[str, Any]:
    """Empty values that nobody gave are only this program's way to say "absent"."""
    kept = {}
    for name, field in type(model).model_fields.items():
        key = field.serialization_alias or field.alias or name
        if key not in dumped:
            continue
        value = _as_returned(getattr(model, name), dumped[key])
        if name in model.model_fields_set or value not in ("", [], {}, False):
            kept[key] = value
    return kept


def _as_returned(value: Any, dumped: Any) -> Any:
    if isinstance(value, BaseModel):
        return _without_absent(value, dumped)
    if isinstance(value, tuple):
        return [_as_returned(*pair) for pair in zip(value, dumped, strict=True)]
    return dumped


def show(items: Sequence[AgentRun | Approval], output: str) -> None:
    """Print objects. JSON and YAML are a List of the objects, whatever their number."""
    if output in ("json", "yaml"):
        listing = {"apiVersion": "v1", "kind": "List", "items": [document(item) for item in items]}
        click.echo(as_text(listing, output))
    elif output == "name":
        for item in items:
            click.echo(f"{item.kind.lower()}/{item.metadata.name}")
    elif not items:
        click.echo("nothing found", err=True)
    else:
        print_table(*_table(items, wide=output == "wide"))


def as_text(value: Any, output: str) -> str:
    """JSON or YAML."""
    if output == "yaml":
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).rstrip()
    return json.dumps(value, indent=2)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as kubectl prints them; never wrapped, so that it can be piped."""
    table = Table(box=None, pad_edge=False, header_style="", padding=(0, 3, 0, 0))
    for name in header:
        table.add_column(name, no_wrap=True)
    lines = [[" ".join(visible(cell).split("\n")) for cell in row] for row in rows]
    for row in lines:
        table.add_row(*row)
    width = 40 + sum(max(len(row[i]) for row in [header, *lines]) + 3 for i in range(len(header)))
    Console(width=width, highlight=False, markup=False).print(table)


def _table(
    items: Sequence[AgentRun | Approval], *, wide: bool
) -> tuple[list[str], list[list[str]]]:
    if isinstance(items[0], AgentRun):
        runs = [item for item in items if isinstance(item, AgentRun)]
        header = ["NAME", "PHASE", "REASON", "ATTEMPT", "TURNS", "TOKENS", "COST", "AGE"]
        header += ["NODE", "SEQ", "MESSAGE"] if wide else []
        return header, [run_row(run, wide=wide) for run in runs]
    approvals = [item for item in items if isinstance(item, Approval)]
    header = ["NAME", "RUN", "SCOPE", "TOOL", "STATE", "BY", "EXPIRES", "AGE"]
    return header, [_approval_row(approval) for approval in approvals]


def run_row(run: AgentRun, *, wide: bool = False) -> list[str]:
    """One run's cells, as the CRD's printer columns give them."""
    status = run.status
    usage = status.usage if status else None
    row = [
        run.metadata.name or "",
        status.phase if status else "Pending",
        status.reason if status else "",
        str(status.attempt if status else 0),
        str(usage.turns if usage else 0),
        str(usage.total_tokens if usage else 0),
        (usage.cost_usd or "") if usage else "",
        age(run.metadata.creation_timestamp),
    ]
    if wide:
        seq = status.checkpoint.seq if status and status.checkpoint else 0
        row += [
            status.node_name if status else "",
            str(seq),
            status.message if status else "",
        ]
    return row


def _approval_row(approval: Approval) -> list[str]:
    spec = approval.spec
    return [
        approval.metadata.name or "",
        spec.run_ref.name,
        spec.scope,
        spec.content.tool,
        approval.status.state if approval.status else "Pending",
        spec.decided_by,
        moment(spec.expires_at),
        age(approval.metadata.creation_timestamp),
    ]


def moment(at: datetime | None) -> str:
    """A point in time as Kubernetes writes it."""
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(since: datetime | str | None) -> str:
    """How long ago, in kubectl's short form."""
    if since is None:
        return ""
    then = datetime.fromisoformat(since) if isinstance(since, str) else since
    seconds = max(0, int((datetime.now(UTC) - then).total_seconds()))
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
