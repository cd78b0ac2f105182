"""Undisturbed runs, which the disturbed ones are compared with."""

from __future__ import annotations

import os

from tests.chaos.harness import scenes
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.stage import stage
from tests.peers.modelscripts import Script

TURNS = 50
"""Of the long script."""


async def undisturbed(shared: Grounds) -> Trail:
    """What ``scenes.everything`` leaves behind when nothing happens to it."""
    return await _play(shared, scenes.everything())


async def undisturbed_long(shared: Grounds) -> Trail:
    """The same of ``scenes.long``."""
    return await _play(shared, scenes.long(TURNS))


async def undisturbed_storm(shared: Grounds) -> Trail:
    """The same of ``scenes.stormy``, without the gate: approvals leave no trace in a conversation."""
    return await _play(shared, scenes.stormy())


def new_seed() -> int:
    """A new seed each time. ``CHAOS_SEED`` plays a failed test again, as far as time repeats itself;
    every failure names it."""
    given = os.environ.get("CHAOS_SEED")
    return int(given) if given else int.from_bytes(os.urandom(4))


async def _play(shared: Grounds, script: Script) -> Trail:
    folder = shared.folder("reference")
    with scenes.model(folder, script) as model:
        async with stage(folder, shared.dsns) as made:
            name = await made.apply(scenes.manifest(model.url, shared.tools.url))
            await made.ended(name)
            return await trail(made, name, model.log, shared.tools.effects)
