"""Importing the SDK beside everything else.

It costs two seconds of CPU, and nothing of it is needed before the first request. So it is imported
in a thread, while the run is claimed and restored. The garbage collector rests meanwhile: walking
thousands of new modules again and again is a tenth of the import.
"""

from __future__ import annotations

import gc
import threading
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentrun.runner.model.sdk import Sdk


@cache
def preload() -> Future[type[Sdk]]:
    """Start the import; everybody gets the same future. Safe to call at any time, from any thread."""
    done: Future[type[Sdk]] = Future()
    threading.Thread(target=_load, args=(done,), name="import-anthropic", daemon=True).start()
    return done


def _load(done: Future[type[Sdk]]) -> None:
    done.set_running_or_notify_cancel()  # whoever is cancelled while waiting must not end it
    collecting = gc.isenabled()
    gc.disable()
    try:
        from agentrun.runner.model.sdk import Sdk
    except BaseException as error:  # noqa: BLE001 - whoever waits for the import must see it
        done.set_exception(error)
    else:
        done.set_result(Sdk)
    finally:
        if collecting:
            gc.enable()
