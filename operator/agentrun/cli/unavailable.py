"""Verbs of a later release: they are known, and say so instead of being unknown."""

from __future__ import annotations

from typing import NoReturn

import click

from agentrun.errors import UsageError

UNAVAILABLE = {
    "retry": "Start a new run from the last commit of a failed one.",
    "fork": "Start a new run from any commit of another.",
    "erase": "Erase the content of a finished run's record.",
    "import": "Read an exported record back.",
}


def _unavailable(verb: str, text: str) -> click.Command:
    @click.command(
        verb,
        help=f"{text} Not available in this release.",
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def refuse(arguments: tuple[str, ...]) -> NoReturn:
        raise UsageError(
            "not available in this release", attempted=verb, on=" ".join(arguments[:1])
        )

    return refuse


COMMANDS = tuple(_unavailable(verb, text) for verb, text in UNAVAILABLE.items())
