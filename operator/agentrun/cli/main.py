"""The program: its verbs, and how its errors end.

Exit codes: 0 ok, 1 failed, 2 usage, 3 waits for people, 4 inconclusive (``verify``), 130 interrupted.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from agentrun import __version__
from agentrun.cli import act, dev, entrypoints, read, record, run, unavailable
from agentrun.cli.where import Where, hand_on
from agentrun.errors import AgentRunError, NotFound


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="agentrun")
@click.option("--state", hidden=True)
@click.option("--dsn", hidden=True)
@click.option("--kubeconfig", hidden=True)
@click.option("--context", "kube_context", hidden=True)
@click.option("-n", "--namespace", hidden=True)
@click.pass_context
def program(context: click.Context, /, **place: str | None) -> None:
    """Run LLM agents that survive anything that happens to their pods."""
    context.obj = Where(cluster=Path(sys.argv[0]).name.startswith("kubectl-"))
    hand_on(context, {name: value for name, value in place.items() if value is not None})


for command in (*run.COMMANDS, *read.COMMANDS, *act.COMMANDS, *record.COMMANDS):
    program.add_command(command)
for command in (*entrypoints.COMMANDS, *dev.COMMANDS, *unavailable.COMMANDS):
    program.add_command(command)


def _where_to_look(error: AgentRunError) -> str:
    """A name that is not there is mostly a misspelt one, or that of the wrong kind."""
    if not isinstance(error, NotFound) or error.advice:
        return ""
    return ". Names are listed by: agentrun get runs, agentrun get approvals"


def main() -> None:
    """Entry point of both console scripts: our errors become one line and an exit code.

    Libraries tell of each failed try in logs that nobody asked for; the error says it.
    """
    for library in ("psycopg", "kubernetes"):
        logging.getLogger(library).addHandler(logging.NullHandler())
    try:
        code = program.main(standalone_mode=False)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except AgentRunError as error:
        click.echo(f"error: {error}{_where_to_look(error)}", err=True)
        sys.exit(1)
    except OSError as error:
        about = f"use a file ({error.filename}): " if error.filename else ""
        click.echo(f"error: {about}{error.strerror or error}", err=True)
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)
