"""A rest for the garbage collector while much is made that stays.

It would walk what is there again and again, and find nothing to collect.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """In several threads at once it begins again with the one that was first to rest it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
