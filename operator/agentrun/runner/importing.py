"""Importing an SDK beside everything else.

It costs seconds of CPU, and nothing of it is needed before the first call. So it is imported in a
thread, while the run is claimed and restored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from agentrun.runner.gc_pause import gc_paused

T = TypeVar("T")


def imported(name: str, load: Callable[[], T]) -> Future[T]:
    """What ``load`` imports, once it has."""
    done: Future[T] = Future()
    threading.Thread(target=_load, args=(done, load), name=f"import-{name}", daemon=True).start()
    return done


def _load(done: Future[T], load: Callable[[], T]) -> None:
    done.set_running_or_notify_cancel()  # whoever is cancelled while waiting must not end it
    try:
        with gc_paused():  # a tenth of the import
            found = load()
    except BaseException as error:  # noqa: BLE001 - whoever waits for the import must see it
        done.set_exception(error)
    else:
        done.set_result(found)
