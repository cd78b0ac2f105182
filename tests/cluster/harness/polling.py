"""Waiting for something to become true, with a ceiling and a reason."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.cluster.harness.shell import CommandFailed

T = TypeVar("T")


def eventually(
    probe: Callable[[], T | None], *, within: float, what: str, every: float = 0.25
) -> T:
    """The first truthy answer of the probe.

    A command that fails, an assertion that does not hold yet and a connection
    that is refused all mean "not yet"; the last of them is the error's cause.
    """
    deadline = time.monotonic() + within
    last: Exception | None = None
    answer: T | None = None
    while True:
        try:
            answer = probe()
            last = None
        except (CommandFailed, AssertionError, OSError) as error:
            last = error
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {within} s: {what} (last: {last or answer!r})"
            ) from last
        time.sleep(every)
