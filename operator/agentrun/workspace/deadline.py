"""A time limit for synchronous work: a regular expression can run for ever otherwise."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from agentrun.workspace.outcome import Refused

_armed = False


class _Late(Exception):
    pass


def _ring(signum: int, frame: object) -> None:
    if _armed:
        raise _Late


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise ``Refused`` if the block takes longer. Main thread only, not to be nested.

    The regular expression engine looks for signals while it works, so the alarm reaches it.
    """
    global _armed  # noqa: PLW0603 - a process has one alarm clock
    signal.signal(signal.SIGALRM, _ring)
    try:
        _armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            _armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Late:
        raise Refused(f"gave up after {seconds:g} s") from None
