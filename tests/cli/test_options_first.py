"""Options that say where may stand before the verb, as kubectl's may."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agentrun.cli.main import program
from agentrun.cli.where import Where, placed


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Where]:
    """Where the verb ``look`` was told to work."""
    places: list[Where] = []

    @click.command("look")
    @placed
    async def look(where: Where) -> None:
        places.append(where)

    monkeypatch.setitem(program.commands, "look", look)
    return places


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "team", "--state", "here", "look"],
        ["look", "-n", "team", "--state", "here"],
        ["--state", "other", "-n", "team", "look", "--state", "here"],
    ],
)
def test_a_namespace_before_the_verb_is_the_one_after_it(
    words: Sequence[str], seen: list[Where]
) -> None:
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 0, done.output
    assert [(place.namespace, place.state) for place in seen] == [("team", Path("here"))]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--context", "c", "look"], "--context is an option of kubectl-agentrun"),
        (["look", "--context", "c"], "--context is an option of kubectl-agentrun"),
        (["-n", "team", "dev", "model", "script"], "dev takes no --namespace"),
        (["-n", "team", "lok"], "No such command"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused_before_the_verb_too(
    words: Sequence[str], why: str, seen: list[Where]
) -> None:
    done = CliRunner().invoke(program, words)
    assert done.exit_code == 2
    assert why in done.output
    assert seen == []
