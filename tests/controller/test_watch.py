"""What Kopf is told: it must be something that an API server takes."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Iterator

import pytest

from agentrun.cli.operator import PLAIN_TEXT
from agentrun.controller.watch import kopf_watch, quiet, settings
from agentrun.errors import ClusterUnavailable
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


class FakeKopf:
    """``kopf.operator``: it takes the signals, is ready, and stays until it is cancelled."""

    def __init__(self, *, ends: bool = False) -> None:
        self._ends = ends
        self.cancelled = False

    async def __call__(self, *, ready_flag: asyncio.Event, **_: object) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: None)
        ready_flag.set()
        try:
            if not self._ends:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.fixture
def restored_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("restored_signals", "restored_logging")
async def test_sigterm_ends_the_operator_in_good_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """It exited with 1 and `the watches have ended`, seven seconds later."""
    fake = FakeKopf()
    monkeypatch.setattr("kopf.operator", fake)
    stop = asyncio.Event()
    watching = asyncio.create_task(kopf_watch()(None, stop))  # type: ignore[arg-type]
    await asyncio.sleep(0.05)

    os.kill(os.getpid(), signal.SIGTERM)

    async with asyncio.timeout(3):
        await watching
    assert stop.is_set()
    assert fake.cancelled


@pytest.mark.usefixtures("restored_signals", "restored_logging")
async def test_watches_that_end_by_themselves_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kopf.operator", FakeKopf(ends=True))
    with pytest.raises(ClusterUnavailable, match="have ended"):
        await kopf_watch()(None, asyncio.Event())  # type: ignore[arg-type]
