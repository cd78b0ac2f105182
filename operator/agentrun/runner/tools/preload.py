"""Importing the SDK beside everything else; see :mod:`agentrun.runner.model.preload`."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrun.runner.tools.link import Link


@cache
def preload() -> Future[type[Link]]:
    """Start the import; everybody gets the same future. Safe to call at any time, from any thread."""
    done: Future[type[Link]] = Future()
    threading.Thread(target=_load, args=(done,), name="import-mcp", daemon=True).start()
    return done


def _load(done: Future[type[Link]]) -> None:
    done.set_running_or_notify_cancel()  # whoever is cancelled while waiting must not end it
    collecting = gc.isenabled()
    gc.disable()
    try:
        from agentrun.runner.tools.link import Link
    except BaseException as error:  # noqa: BLE001 - whoever waits for the import must see it
        done.set_exception(error)
    else:
        done.set_result(Link)
    finally:
        if collecting:
            gc.enable()
