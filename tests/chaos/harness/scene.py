"""One run on one stage with one model: what most tests are about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.harness import scenes
from tests.chaos.harness.grounds import Grounds
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.stage import Stage, stage
from tests.peers.modelscripts import Script

from agentrun.api import AgentRun
from agentrun.cli.postgres import Dsns
from agentrun.store.rows import RunRow


@dataclass(frozen=True)
class Scene:
    """The run, applied, and everything around it."""

    shared: Grounds
    stage: Stage
    folder: Path
    model: scenes.Model
    name: str
    effects: Path

    async def ended(self) -> Trail:
        """Everything about the run once it is over."""
        await self.stage.ended(self.name)
        return await self.trail()

    async def trail(self) -> Trail:
        """Everything about the run now."""
        return await trail(self.stage, self.name, self.model.log, self.effects)

    async def phase(self, phase: str, reason: str | None = None) -> AgentRun:
        """The object once it shows this phase."""
        return await self.stage.phase(self.name, phase, reason)

    async def row(self) -> RunRow:
        """The row, which must be there."""
        row = await self.stage.row(self.name)
        assert row is not None
        return row

    async def change(self, **spec: Any) -> None:
        """Patch the run's spec."""
        await self.stage.user.change_run(self.name, spec)


@asynccontextmanager
async def scene(
    shared: Grounds,
    script: Script,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    operator: bool = True,
    effects: Path | None = None,
    dsns: Dsns | None = None,
    **spec: Any,
) -> AsyncIterator[Scene]:
    """A run of this script, in a folder of its own; ``spec`` as for ``scenes.manifest``."""
    folder = folder or shared.folder("scene")
    with scenes.model(folder, script) as model:
        async with stage(folder, dsns or shared.dsns, environ=environ, operator=operator) as made:
            manifest = scenes.manifest(model.url, shared.tools.url, **spec)
            name = await made.apply(manifest)
            yield Scene(shared, made, folder, model, name, effects or shared.tools.effects)
