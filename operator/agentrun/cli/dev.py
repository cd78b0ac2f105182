"""``agentrun dev``: what helps to try things out."""

from __future__ import annotations

from pathlib import Path

import click

from agentrun.devmodel import load_script, serve
from agentrun.errors import UsageError


@click.group()
def dev() -> None:
    """Tools for trying things out."""


@dev.command()
@click.argument("script", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port; a free one if 0.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--log", type=click.Path(path_type=Path), help="One JSON line per request.")
def model(script: Path, port: int, host: str, log: Path | None) -> int:
    """Serve a scripted Messages API: no key, no network."""
    rules = load_script(script)
    try:
        serve(
            rules,
            host=host,
            port=port,
            log=log,
            ready=lambda bound: click.echo(f"http://{host}:{bound}"),
        )
    except OSError as error:
        if error.filename is not None:
            raise
        raise UsageError(
            error.strerror or str(error),
            attempted="listen",
            on=f"{host}:{port}",
            advice="Choose another --port or --host.",
        ) from None
    return 0


COMMANDS = (dev,)
