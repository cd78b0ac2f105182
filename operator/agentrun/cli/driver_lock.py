"""Whether anybody drives a state folder: whoever decides or waits is told when nobody does.

A lock and not a note, because a driver that was killed leaves none behind.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "driving.lock"
TURNS = "turns.lock"


@contextmanager
def driving(state: Path) -> Iterator[None]:
    """Count as a driver of the folder until the end; several may drive it at once."""
    with (state / LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def in_turn(state: Path) -> Iterator[None]:
    """One driver at a time comes or goes: two that came at once would both start what they share,
    and one that goes would end what another has just found."""
    with (state / TURNS).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def driven(state: Path) -> bool:
    """Whether an ``agentrun run`` works on the folder's runs now."""
    try:
        with (state / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
