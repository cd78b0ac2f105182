"""Everything that can happen, at random and on top of each other."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from tests.chaos.harness.operators import Keeper
from tests.chaos.harness.scene import Scene
from tests.chaos.harness.stage import LOOK

from agentrun.api import Decision
from agentrun.cluster.local.files import read_json
from agentrun.cluster.local.pod import SUPERVISOR
from agentrun.cluster.local.processes import Identity, send
from agentrun.errors import AgentRunError, StoreUnavailable
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.rows import RunRow


@dataclass
class Storm:
    """Blows on one run. ``done`` says what it did, for whoever has to find out why."""

    playing: Scene
    keeper: Keeper
    server: EmbeddedPostgres
    random: Random
    ttl: float
    done: list[str] = field(default_factory=list)
    progress: int = 0

    async def blow(self, times: int) -> None:
        """So many gusts, or until the run is over."""
        gusts: dict[Callable[[], Awaitable[None]], int] = {
            self.kill: 4,
            self.kill_behind: 2,
            self.freeze: 3,
            self.kill_node: 2,
            self.kill_operator: 3,
            self.freeze_operator: 1,
            self.kill_workspace: 2,
            self.crash_database: 2,
            self.suspend: 2,
        }
        for _ in range(times):
            await asyncio.sleep(self.random.uniform(0, 2.5))
            if (await self.row()).state.terminal:
                return
            (gust,) = self.random.choices(list(gusts), list(gusts.values()))
            self.done.append(gust.__name__)
            await gust()

    async def approve(self) -> None:
        """Whatever is asked, some time later, until cancelled."""
        user = self.playing.stage.user
        while True:
            for approval in await user.list_approvals():
                if approval.spec.decision is None:
                    with suppress(AgentRunError):
                        await user.decide(approval.metadata.name, Decision.APPROVE)
            await asyncio.sleep(self.random.uniform(0.05, 0.5))

    async def row(self) -> RunRow:
        """The row, once there is one and the database answers."""
        while True:
            with suppress(StoreUnavailable):
                row = await self.playing.stage.row(self.playing.name)
                if row is not None:
                    return row
            await asyncio.sleep(LOOK)

    async def kill(self) -> None:
        """As ``agentrun kill``."""
        await self.playing.stage.kill(self.playing.name)

    async def kill_behind(self) -> None:
        """SIGKILL that nobody knows of: an App fault, so only if the run got on since the last."""
        row = await self.row()
        if row.progress_seq > self.progress and (runner := self._runner(row)):
            self.progress = row.progress_seq
            send(runner, signal.SIGKILL)

    async def freeze(self) -> None:
        """For less than the lease, or for more."""
        if runner := self._runner(await self.row()):
            send(runner, signal.SIGSTOP)
            await asyncio.sleep(self.random.uniform(0, 2 * self.ttl))
            send(runner, signal.SIGCONT)

    async def kill_node(self) -> None:
        """The supervisor dies, and with it whoever could tell how the runner ended."""
        holder = (await self.row()).holder
        noted = read_json(self.playing.stage.folder / "pods" / (holder or "-") / SUPERVISOR)
        if noted is not None:
            send(Identity.from_dict(noted), signal.SIGKILL)

    async def kill_operator(self) -> None:
        """One of them; it is replaced."""
        self.random.choice(self.keeper.processes).kill()

    async def freeze_operator(self) -> None:
        """It wakes up with an old view of everything."""
        process = self.random.choice(self.keeper.processes)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self.random.uniform(0, 2 * self.ttl))
        process.send_signal(signal.SIGCONT)

    async def kill_workspace(self) -> None:
        """It is started again, and the files are put back."""
        holder = (await self.row()).holder
        with suppress(AssertionError, OSError, StopIteration):
            os.kill(self.playing.stage.workspace(holder or "-"), signal.SIGKILL)

    async def crash_database(self) -> None:
        """And start it again at once."""
        await asyncio.to_thread(self.server.restart, immediate=True)

    async def suspend(self) -> None:
        """And resume, whether it has settled or not."""
        await self.playing.change(suspend=True)
        await asyncio.sleep(self.random.uniform(0, 3))
        await self.playing.change(suspend=False)

    def _runner(self, row: RunRow) -> Identity | None:
        return self.playing.stage.runner(row.holder) if row.holder else None
