"""``kubectl agentrun result`` without a database: the status has short results whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentrun.cli.record import result
from agentrun.cli.where import Where
from agentrun.errors import UsageError


def printed(monkeypatch: pytest.MonkeyPatch, text: str) -> Result:
    """What the verb does where a run's status says ``text``."""

    @asynccontextmanager
    async def objects(where: Where) -> AsyncIterator[Any]:
        async def get_run(name: str) -> Any:
            return SimpleNamespace(
                status=SimpleNamespace(result=text), metadata=SimpleNamespace(uid="u")
            )

        yield SimpleNamespace(get_run=get_run)

    monkeypatch.setattr(Where, "objects", objects)
    monkeypatch.delenv("AGENTRUN_DSN", raising=False)
    return CliRunner().invoke(result, ["hello"], obj=Where(cluster=True))


def test_a_short_result_is_in_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, "I like it.").stdout == "I like it.\n"


@pytest.mark.parametrize("text", ["", "The beginning of a long one…"])
def test_a_longer_one_needs_the_database(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    done = printed(monkeypatch, text)
    assert isinstance(done.exception, UsageError)
    assert "AGENTRUN_DSN" in str(done.exception)
