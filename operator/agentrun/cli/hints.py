"""What a person can do next: the commands, as they are to be typed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from agentrun.api import AgentRun, Approval, Reason
from agentrun.cli.driver_lock import driven
from agentrun.cli.output import visible
from agentrun.cli.where import DEFAULT_STATE, Where

SHOWN = 2000
"""Characters of a question that are printed; what is asked must not push the commands away."""


@dataclass(frozen=True, slots=True)
class ResumeCommand:
    """How to go on with a run of manifests. ``files`` is empty where they would make new runs."""

    where: Where
    files: Sequence[Path] = ()
    script: Path | None = None

    def __str__(self) -> str:
        script = ["--model-script", str(self.script)] if self.script else []
        return command(self.where, "run", *map(str, self.files), *script)


def command(where: Where, *words: str) -> str:
    """A command line for the same place. A database's address may hold a password: left out."""
    program = "kubectl agentrun" if where.cluster else "agentrun"
    options = ["-n", where.namespace] if where.namespace else []
    if not where.cluster and where.state != Path(DEFAULT_STATE):
        options += ["--state", str(where.state)]
    database = " --dsn …" if where.dsn and where.dsn != os.environ.get("AGENTRUN_DSN") else ""
    return f"{program} {shlex.join([*words, *options])}{database}"


def say_who_takes_it_up(where: Where) -> None:
    """A change in a folder that nobody drives waits for the next ``agentrun run``: say so."""
    if not where.cluster and not driven(where.state):
        click.echo(
            f"no agentrun drives {where.state} now; go on with: {ResumeCommand(where)}", err=True
        )


def say_what_to_do(
    left: Sequence[AgentRun], asked: Sequence[Approval], again: ResumeCommand
) -> None:
    """What each waiting run waits for, and the commands that help.

    A manifest may say ``suspend: true``: applied again, it would take the resumption back.
    """
    where = again.where
    for item in left:
        status = item.status
        reason, message = (status.reason, status.message) if status else ("", "")
        click.echo(f"{item.metadata.name}: {reason} {visible(message)}")
        for approval in asked:
            if approval.spec.run_ref.name == item.metadata.name:
                _say_question(where, approval)
        if reason == Reason.SUSPENDED_BY_USER:
            click.echo(f"  {command(where, 'resume', item.metadata.name)}")
        if reason == Reason.BUDGET_EXCEEDED:
            click.echo("  raise that limit in the manifest and apply it again")
    if not where.cluster:
        held = any(item.status and item.status.reason == Reason.SUSPENDED_BY_USER for item in left)
        way = replace(again, files=()) if held else again
        click.echo(f"then go on with: {way}", err=True)


def _say_question(where: Where, approval: Approval) -> None:
    name, content = approval.metadata.name, approval.spec.content
    text = content.arguments_json
    click.echo(f"  {content.tool} {visible(text[:SHOWN])}")
    if len(text) > SHOWN:
        whole = command(where, "get", "approval", name, "-o", "yaml")
        click.echo(f"  … {len(text) - SHOWN} more characters; read them with: {whole}")
    if content.truncated:
        click.echo("  not even that shows all: the arguments are longer than an Approval can hold")
    click.echo(f"  {command(where, 'approve', name)}")
    click.echo(f"  {command(where, 'deny', name)}")
