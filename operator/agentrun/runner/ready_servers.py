"""The tool servers of an attempt: made ready before their first call, compared with the record.

A restored run does not wait for its servers before it calls the model: what they offered is in the
record. They are asked in the background, and what differs becomes a record of its own before the
next request of that agent. A call does wait, because it may be for a tool that
changed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from agentrun.api import Persistence
from agentrun.errors import StoreUnavailable, ToolServerUnavailable
from agentrun.run import boundaries
from agentrun.run.steps import CallModel, RunTool
from agentrun.run.values import Boundary
from agentrun.runner.attempt import Attempt
from agentrun.runner.tools.port import OfferedTool
from agentrun.runner.toolsets import merged_offers, servers_of, used_before

T = TypeVar("T")
RETRY_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between tries to reach a server: a sidecar may still be starting."""


class ReadyServers:
    """What this attempt knows about its tool servers."""

    def __init__(self, attempt: Attempt, changed: Callable[[], None]) -> None:
        self._attempt = attempt
        self._changed = changed
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._ready: set[str] = set()
        self._generations: dict[str, str] = {}
        self._listed: dict[str, tuple[OfferedTool, ...]] = {}
        self._comparing: dict[str, asyncio.Task[None]] = {}
        self._stale: set[str] = set()
        self.begun = False

    def begin(self) -> bool:
        """Once, before the first step with I/O: what a new attempt has to find out.

        True when that made a commit, so that the caller asks again what may run.
        """
        self.begun = True
        state, spec = self._attempt.state, self._attempt.spec
        lost = [
            server.name
            for server in spec.tool_servers
            if server.forgets and state.attempt > 1 and used_before(state, server.name)
        ]
        for name in lost:
            self._reset(name, "the pod was replaced", self._attempt.tail.submitted)
        for agent in state.toolsets:
            for name in servers_of(spec, agent):
                if name not in self._comparing:
                    self._comparing[name] = asyncio.create_task(
                        self._compare(name), name=f"compare {name}"
                    )
        return bool(lost)

    def differences(self) -> Iterator[Boundary]:
        """Commits for toolsets that are not what is recorded, for agents with no request under way."""
        asking = {
            self._attempt.state.conversations[step.conversation].agent
            for step in self._attempt.flight
            if isinstance(step, CallModel)
        }
        for agent in sorted(self._stale - asking):
            self._stale.discard(agent)
            offers = merged_offers(self._attempt.state, self._attempt.spec, agent, self._listed)
            boundary = boundaries.tools_offered(self._attempt.state, agent, offers)
            if boundary is not None:
                self._attempt.observer.toolset(agent, len(offers))
                yield boundary

    def holds(self, step: RunTool) -> bool:
        """Whether the call's server is still being compared."""
        conversation = self._attempt.state.conversations[step.call.path]
        call = next(call for call in conversation.calls if call.id == step.call)
        comparing = self._comparing.get(call.tool.partition(".")[0])
        return comparing is not None and not comparing.done()

    async def list(self, names: Sequence[str]) -> tuple[OfferedTool, ...]:
        """What these servers offer, patiently."""
        return await self.persist(names, lambda: self._attempt.tools.offered(names))

    async def ready(self, server: str) -> None:
        """Before a call: the workspace holds what the record says it holds."""
        async with self._locks[server]:
            if server in self._ready:
                return
            if self._recorded(server):
                files = dict(self._attempt.state.files.get(server, {}))
                await self.persist(
                    (server,),
                    lambda: self._attempt.tools.restore_files(server, files, self._fetch),
                )
            self._ready.add(server)

    async def answered(self, server: str, after: int) -> None:
        """After an answer: if the server is not the one that was known, the model must be told."""
        if self._recorded(server):
            return
        now = await self._attempt.tools.generation(server)
        if now is None:
            return
        known = self._generations.setdefault(server, now)
        if known != now:
            self._generations[server] = now
            self._reset(server, "it was restarted during the run", after)

    async def persist(self, names: Sequence[str], work: Callable[[], Awaitable[T]]) -> T:
        """``work``, again and again while the servers cannot be reached, for about a minute."""
        waits = iter(RETRY_WAITS)
        while True:
            try:
                return await work()
            except ToolServerUnavailable as error:
                wait = next(waits, None)
                self._attempt.observer.unreachable(",".join(names), error)
                if wait is None:
                    raise
            await self._attempt.clock.sleep(wait)

    async def close(self) -> None:
        """Stop comparing."""
        tasks = [task for task in self._comparing.values() if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)

    def _recorded(self, server: str) -> bool:
        """Whether the server's files are part of the run."""
        found = next(item for item in self._attempt.spec.tool_servers if item.name == server)
        return found.workspace is not None and found.workspace.persistence is Persistence.RECORD

    def _reset(self, server: str, why: str, after: int) -> None:
        self._attempt.observer.environment_reset(server)
        self._attempt.commit(boundaries.environment_reset(server, why), after=after)

    async def _compare(self, server: str) -> None:
        """A server that cannot be reached is no difference; the calls to it will say so."""
        try:
            self._listed[server] = await self.list((server,))
        except ToolServerUnavailable:
            return
        finally:
            self._changed()
        self._stale.update(
            agent
            for agent in self._attempt.state.toolsets
            if server in servers_of(self._attempt.spec, agent)
        )

    async def _fetch(self, hashes: Sequence[str]) -> Mapping[str, bytes]:
        """Contents of files, as patient as the lease."""
        while True:
            try:
                return await self._attempt.store.blobs(hashes)
            except StoreUnavailable as error:
                self._attempt.observer.store_error(error)
            await self._attempt.clock.sleep(1.0)
