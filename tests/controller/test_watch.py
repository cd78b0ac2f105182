"""What Kopf is told: it must be something that an API server takes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from agentrun.cli.operator import PLAIN_TEXT
from agentrun.controller.watch import quiet, settings
from agentrun.telemetry import logs


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), [logging.getLogger(n) for n in ("kopf.objects", *PLAIN_TEXT)]
    handlers, level, levels = root.handlers[:], root.level, [one.level for one in ours]
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for one, before in zip(ours, levels, strict=True):
        one.setLevel(before)


def test_a_watch_asks_for_whole_seconds() -> None:
    """`strconv.ParseInt: parsing "282.79": invalid syntax`, and the operator ended."""
    for clusterwide in (True, False):
        watching = settings(clusterwide=clusterwide).watching
        assert isinstance(watching.server_timeout, int)
        assert watching.client_timeout is not None
        assert watching.client_timeout > watching.server_timeout


def test_the_operators_log_says_what_became_of_runs(
    capsys: pytest.CaptureFixture[str], restored_logging: None
) -> None:
    """`kubectl logs` showed a line for every event that Kopf had handled, and none of ours."""
    logs.configure(plain_text=PLAIN_TEXT)
    quiet()

    logging.getLogger("agentrun.controller.reconcile").info("run a/b: Succeeded")
    logging.getLogger("kopf.objects").info("Handler 'run_event' succeeded.")

    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["text"] == "run a/b: Succeeded"
