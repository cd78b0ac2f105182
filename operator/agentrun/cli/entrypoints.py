"""What the image runs: operator, runner, migrate, check."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import NoReturn

import click

from agentrun.cli.where import no_database
from agentrun.errors import StoreUnavailable, UsageError


@click.command()
def operator() -> int:
    """Run the operator; everything it needs is in its environment."""
    from agentrun.cli.operator import run_operator

    return asyncio.run(run_operator(os.environ))


@click.command()
def runner() -> NoReturn:
    """Run one attempt; everything it needs is in its environment."""
    from agentrun.runner.main import main as run

    run()


@click.command()
@click.option("--dsn", default=lambda: os.environ.get("AGENTRUN_DSN"), help="Postgres to migrate.")
def migrate(dsn: str | None) -> int:
    """Bring the database's schema up to date."""
    from agentrun.store.migrate import migrate as apply

    try:
        click.echo(f"schema version {apply(_given(dsn))}")
    except StoreUnavailable as error:
        raise no_database(error) from None
    return 0


@click.command()
@click.option("--dsn", default=lambda: os.environ.get("AGENTRUN_DSN"), help="Postgres to look at.")
@click.option("--kubeconfig", type=click.Path(path_type=Path), help="The kubeconfig to use.")
def check(dsn: str | None, kubeconfig: Path | None) -> int:
    """Say whether an installation can work: database, schema, custom resources, rights."""
    from agentrun.cli.check import checks

    problems = 0
    for name, problem in asyncio.run(checks(_given(dsn), kubeconfig)):
        click.echo(f"{name}: {problem or 'ok'}", err=bool(problem))
        problems += bool(problem)
    return 1 if problems else 0


def _given(dsn: str | None) -> str:
    if not dsn:
        raise UsageError("no database given", advice="Set AGENTRUN_DSN or give --dsn.")
    return dsn


COMMANDS = (operator, runner, migrate, check)
