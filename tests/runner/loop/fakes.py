"""The world around an attempt, in memory: a scripted model, tools that count effects, a kill switch.

Effects and requests outlive attempts; everything an attempt holds is lost when it is killed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.runner.loop.memory import Database, MemoryStore
from tests.runner.loop.virtual import now

from agentrun.api import AgentRunSpec
from agentrun.errors import AgentRunError, NotSent
from agentrun.run.exact import parse_json
from agentrun.run.records import FileChange, Json, Usage
from agentrun.run.values import (
    ModelRequest,
    OutgoingCall,
    Reply,
    Requested,
    ToolAnswer,
    ToolOutcome,
)
from agentrun.runner.clock import Clock
from agentrun.runner.drain import Drain
from agentrun.runner.exits import Ending
from agentrun.runner.lifecycle import World, live
from agentrun.runner.observer import Observer
from agentrun.runner.tools.port import Fetch, Files, OfferedTool

GRACE = 30.0


def text(words: str) -> Reply:
    """A reply that ends the conversation."""
    return Reply(
        [{"type": "text", "text": words}],
        (),
        "end_turn",
        "m",
        "msg",
        Usage(input_tokens=10, output_tokens=5),
    )


def asks(*names: str, turn: int = 0, server: str = "ops", **arguments: Json) -> Reply:
    """A reply that asks for tools of one server."""
    requested = tuple(
        Requested(f"toolu_{turn}_{index}", f"{server}__{name}", {"n": turn, **arguments})
        for index, name in enumerate(names)
    )
    content: Json = [{"type": "text", "text": f"turn {turn}"}]
    content += [
        {"type": "tool_use", "id": asked.id, "name": asked.name, "input": asked.arguments}
        for asked in requested
    ]
    usage = Usage(input_tokens=10, output_tokens=5)
    return Reply(content, requested, "tool_use", "m", f"msg{turn}", usage)


def says(words: str, *, is_error: bool = False) -> ToolAnswer:
    """A tool's answer."""
    return ToolAnswer([{"type": "text", "text": words}], is_error, 1)


def turn_of(request: ModelRequest) -> int:
    """How many replies are in a request."""
    body = parse_json(request.body)
    return sum(message["role"] == "assistant" for message in body["messages"])


class Kill:
    """Counts the points an attempt passes; at the chosen one the process is gone."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.passed: list[str] = []
        self.dead = False
        self.fired = asyncio.Event()
        self.acts: dict[str, Callable[[], object]] = {}
        """What happens when a point is passed, by name."""

    async def point(self, name: str) -> None:
        """Go on, or never come back."""
        if (act := self.acts.get(name)) is not None:
            act()
        if not self.dead and len(self.passed) == self.at:
            self.dead = True
            self.fired.set()
        self.passed.append(name)
        if self.dead:
            await asyncio.Event().wait()


@dataclass
class ScriptedModel:
    """Replies by turn; the request decides, so it is stable across attempts."""

    script: Callable[[int], Reply]
    kill: Kill
    requests: list[tuple[int, str]] = field(default_factory=list)
    """(turn, request hash) of everything that was sent."""
    seconds: float = 0.0
    fail: Callable[[int], Exception | None] = lambda turn: None
    hook: Callable[[int], Awaitable[None]] | None = None
    bodies: list[Json] = field(default_factory=list)

    async def complete(self, request: ModelRequest) -> Reply:
        await self.kill.point("before model")
        turn = turn_of(request)
        self.requests.append((turn, request.request_hash))
        self.bodies.append(parse_json(request.body))
        await asyncio.sleep(self.seconds)
        if self.hook is not None:
            await self.hook(turn)
        error = self.fail(turn)
        if error is not None:
            raise error
        await self.kill.point("after model")
        return self.script(turn)

    async def close(self) -> None:
        return


@dataclass
class CountingTools:
    """Tools whose effects are counted by call key, before the answer, as a real server would."""

    kill: Kill
    answer: Callable[[OutgoingCall], ToolOutcome] = lambda call: says(f"did {call.tool}")
    offers: Sequence[OfferedTool] = ()
    effects: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)
    seconds: Mapping[str, float] = field(default_factory=dict)
    away: Callable[[str], Exception | None] = lambda server: None
    """An error instead of a connection, by server."""
    hook: Callable[[OutgoingCall], Awaitable[None]] | None = None
    listed: list[str] = field(default_factory=list)
    restored: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    generations: dict[str, str] = field(default_factory=dict)
    list_gate: asyncio.Event | None = None
    before_send: Callable[[OutgoingCall], Awaitable[None]] | None = None

    async def offered(self, servers: Sequence[str]) -> tuple[OfferedTool, ...]:
        if self.list_gate is not None:
            await self.list_gate.wait()
        for server in servers:
            self.listed.append(server)
            if (error := self.away(server)) is not None:
                raise error
        return tuple(tool for tool in self.offers if tool.server in servers)

    async def call(self, call: OutgoingCall, *, may_send: Callable[[], bool]) -> ToolOutcome:
        if (error := self.away(call.server)) is not None:
            raise error
        await self.kill.point(f"before {call.tool}")
        if self.before_send is not None:
            await self.before_send(call)
        if not may_send():
            raise NotSent("not now")
        self.requests[call.key] += 1
        self.effects[call.key] += 1
        self.order.append(call.tool)
        await self.kill.point(f"after {call.tool}")
        await asyncio.sleep(self.seconds.get(call.tool, 0.0))
        if self.hook is not None:
            await self.hook(call)
        return self.answer(call)

    async def restore_files(self, server: str, files: Files, fetch: Fetch) -> None:
        names = [sha for sha, _, _ in files.values()]
        contents = await fetch(names) if names else {}
        self.restored.append((server, {path: contents[f[0]] for path, f in files.items()}))

    async def generation(self, server: str) -> str | None:
        return self.generations.get(server)

    async def close(self) -> None:
        return


def tool(name: str, server: str = "ops", **schema: Json) -> OfferedTool:
    """A tool as its server describes it."""
    return OfferedTool(server, name, f"does {name}", {"type": "object", **schema}, None)


class Hearing(Observer):
    """Remembers which events it heard."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.errors: list[Exception] = []
        self.store_errors: list[Exception] = []

    def store_error(self, error: Exception) -> None:
        self.store_errors.append(error)

    def discarded(self) -> None:
        self.heard.append("discarded")

    def silent(self, call: Any, tool: str, policy: str) -> None:
        self.heard.append(f"silent {policy}")

    def environment_reset(self, server: str) -> None:
        self.heard.append(f"reset {server}")

    def snapshot(self, seq: int, size: int) -> None:
        self.heard.append(f"snapshot {seq}")

    def snapshot_failed(self, error: Exception) -> None:
        self.heard.append("snapshot failed")

    def toolset(self, agent: str, count: int) -> None:
        self.heard.append(f"toolset {agent} {count}")

    def unreachable(self, server: str, error: Exception) -> None:
        self.heard.append(f"unreachable {server}")

    def failed(self, error: Exception) -> None:
        if not isinstance(error, AgentRunError):
            self.errors.append(error)


@dataclass
class FakeAdapters:
    """Hands out the fakes."""

    model: ScriptedModel
    counting: CountingTools
    preloaded: list[bool] = field(default_factory=list)
    progress: Callable[[], None] = lambda: None
    opening: Callable[[], None] = lambda: None

    def preload(self, spec: AgentRunSpec | None) -> None:
        self.preloaded.append(spec is not None and bool(spec.tool_servers))

    def models(
        self, spec: AgentRunSpec, may_send: Callable[[], bool], progress: Callable[[], None]
    ) -> FakeAdapters:
        self.progress = progress
        return self

    def of(self, agent: str) -> ScriptedModel:
        self.opening()
        return self.model

    def tools(self, spec: AgentRunSpec) -> CountingTools:
        return self.counting

    async def close(self) -> None:
        return


class Stage:
    """A run and its world. ``attempt()`` plays one attempt; the record and the effects stay."""

    def __init__(self, spec: AgentRunSpec, script: Callable[[int], Reply]) -> None:
        self.kill = Kill()
        self.db = Database(spec)
        self.model = ScriptedModel(script, self.kill)
        self.tools = CountingTools(self.kill, offers=(tool("fix"), tool("look")))
        self.adapters = FakeAdapters(self.model, self.tools)
        self.observer = Hearing()
        self.store: MemoryStore | None = None
        self.drain: Drain | None = None
        self.grace = GRACE
        self.check_errors = True
        self._timers: list[asyncio.TimerHandle] = []
        self.endings: list[Ending | None] = []
        self.offload: Callable[[Callable[[], Any]], Awaitable[Any]] = inline

    async def attempt(self, *, mint: bool = True) -> Ending | None:
        """One attempt; None when it was killed."""
        if mint:
            self.db.mint()
        self.kill.dead = False
        self.kill.fired.clear()
        clock = Clock(now, asyncio.sleep)
        self.store = MemoryStore(self.db, self.kill.point)
        self.drain = Drain(clock, self.grace)
        world = World(
            self.store,
            self._reopened,
            self.adapters,
            clock,
            self.drain,
            self.observer,
            self.offload,
        )
        life = asyncio.ensure_future(live(world))
        killed = asyncio.ensure_future(self.kill.fired.wait())
        await asyncio.wait((life, killed), return_when=asyncio.FIRST_COMPLETED)
        killed.cancel()
        ending: Ending | None = None
        if life.done():
            ending = life.result()
        else:
            life.cancel()
            await asyncio.wait((life,))
        if self.check_errors and self.observer.errors:
            raise self.observer.errors[0]
        self.endings.append(ending)
        return ending

    def _reopened(self, stall: float) -> MemoryStore:
        """Another store of the same process."""
        assert self.store is not None
        assert self.store.closed, "a runner has one connection"
        nonce = self.store.nonce
        self.store = MemoryStore(self.db, self.kill.point)
        self.store.nonce, self.store.stall = nonce, stall
        return self.store

    async def play(self, attempts: int = 10) -> Ending | None:
        """Attempts, as the operator would mint them, until the run is over or suspended."""
        ending = None
        for _ in range(attempts):
            ending = await self.attempt()
            if self.db.state != "Active":
                return ending
        raise AssertionError("the run does not end")

    def stick(self) -> None:
        """Appends never land any more, renewals are answered."""
        assert self.store is not None
        self.store.stuck = True

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Do something in a while, unless ``calm`` comes first."""
        self._timers.append(asyncio.get_running_loop().call_later(seconds, act))

    def calm(self) -> None:
        """Nothing that was to happen later happens."""
        for timer in self._timers:
            timer.cancel()


async def inline(work: Callable[[], Any]) -> Any:
    """Beside the event loop, without a thread."""
    return work()


def change(path: str, content: bytes) -> tuple[FileChange, dict[str, bytes]]:
    """A file that a workspace call wrote."""
    import hashlib

    name = hashlib.sha256(content).hexdigest()
    return FileChange(path=path, sha256=name, size=len(content)), {name: content}
