"""One state folder with an operator over it: start, stop, apply, watch, kill."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agentrun.api import AgentRun, Approval
from agentrun.cli.postgres import Dsns
from agentrun.cluster.local.adapter import LocalCluster
from agentrun.cluster.local.files import read_json
from agentrun.cluster.local.open import open_local_cluster, open_local_user
from agentrun.cluster.local.pod import POD, STARTED, SUPERVISOR
from agentrun.cluster.local.processes import Identity, alive, everything, find, send
from agentrun.cluster.local.user import LocalUserCluster
from agentrun.cluster.values import PodView
from agentrun.controller.app import Operator
from agentrun.controller.settings import Settings
from agentrun.errors import AgentRunError, NotFound
from agentrun.run.log import Log, blob_names
from agentrun.store.operator_store import PostgresOperatorStore, open_operator_store
from agentrun.store.rows import RunRow

T = TypeVar("T")
PATIENCE = 150.0
"""Seconds until a scene counts as stuck. Nothing is ever asserted about how long anything takes."""
LOOK = 0.03


def quick_settings(dsns: Dsns, installation: str) -> Settings:
    """Local mode's settings with the waits scaled down."""
    return Settings(
        installation=installation,
        runner_dsn=dsns.runner,
        local=True,
        poll=0.1,
        resync=20.0,
        backoff_base=0.05,
        backoff_cap=0.5,
        settle_slack=2.0,
        resume_wait=1.0,
        keep_failed_pod=0.0,
    )


@dataclass(frozen=True)
class Frozen:
    """A pod on a node that does not answer: its runner and its supervisor are stopped."""

    pod: str
    uid: str
    runner: Identity
    supervisor: Identity

    def wake_runner(self) -> None:
        """It goes on in the belief that no time has passed."""
        send(self.runner, signal.SIGCONT)

    def wake_node(self) -> None:
        """The supervisor sees what it was asked for meanwhile."""
        send(self.supervisor, signal.SIGCONT)


@dataclass
class Operating:
    """A running operator and what it holds."""

    task: asyncio.Task[None]
    stop: asyncio.Event
    cluster: LocalCluster
    store: PostgresOperatorStore


@dataclass
class Stage:
    """Runs of one state folder. The operator may come and go; ``user`` and ``store`` stay."""

    folder: Path
    dsns: Dsns
    user: LocalUserCluster
    store: PostgresOperatorStore
    environ: Mapping[str, str] = field(default_factory=dict)
    installation: str = field(default_factory=lambda: secrets.token_hex(4))
    operators: list[Operating] = field(default_factory=list)

    async def start_operator(self) -> None:
        """In this process. Runners inherit ``environ``."""
        cluster = open_local_cluster(self.folder, ambient={**os.environ, **self.environ})
        store = await open_operator_store(self.dsns.operator)
        stop = asyncio.Event()
        operator = Operator(store, cluster, quick_settings(self.dsns, self.installation))
        task = asyncio.create_task(operator.run(stop))
        self.operators.append(Operating(task, stop, cluster, store))

    async def stop_operators(self) -> None:
        """As a crash would: nothing is drained, pods live on."""
        for one in self.operators:
            one.stop.set()
            await asyncio.gather(one.task, return_exceptions=True)
            await one.cluster.close()
            await one.store.close()
        self.operators.clear()

    async def close(self) -> None:
        """End every pod and close everything."""
        await self.stop_operators()
        cluster = open_local_cluster(self.folder, ambient={})
        for pod in await cluster.list_pods():
            with suppress(AgentRunError):
                await cluster.delete_pod(pod.key, pod.uid, 0)
        await cluster.close()
        await self.user.close()
        await self.store.close()

    async def uid(self, name: str) -> str:
        """UID of the run's present object."""
        return (await self.user.get_run(name)).metadata.uid

    async def row(self, name: str) -> RunRow | None:
        """The run's row, None while there is none."""
        return await self.store.run(await self.uid(name))

    async def log(self, uid: str) -> Log:
        """The whole record."""
        row = await self.store.run(uid)
        assert row is not None
        commits = (await self.store.commits(uid)).commits
        blobs = await self.store.blobs(uid, blob_names(commits))
        return Log(uid, row.namespace, row.name, row.spec, row.spec_hash, commits, blobs)

    async def ended(self, name: str) -> AgentRun:
        """The run once its status shows that it is over."""

        async def over() -> AgentRun | None:
            run = await self.user.get_run(name)
            return run if run.status is not None and run.status.completion_time else None

        return await self.until(over, "the run ends", name)

    async def phase(self, name: str, phase: str, reason: str | None = None) -> AgentRun:
        """The run once its status shows this phase (and reason)."""

        async def shown() -> AgentRun | None:
            run = await self.user.get_run(name)
            status = run.status
            if status is None or status.phase != phase or reason not in (None, status.reason):
                return None
            return run if status.observed_generation == run.metadata.generation else None

        return await self.until(shown, f"{phase} {reason or ''}", name)

    async def row_where(self, name: str, holds: Callable[[RunRow], object], what: str) -> RunRow:
        """The row once something holds of it."""

        async def look() -> RunRow | None:
            row = await self.row(name)
            return row if row is not None and holds(row) else None

        return await self.until(look, what, name)

    async def approval(self, name: str, *, besides: tuple[str, ...] = ()) -> Approval:
        """An undecided Approval of the run."""

        async def look() -> Approval | None:
            for found in await self.user.list_approvals():
                mine = found.spec.run_ref.name == name and found.spec.decision is None
                if mine and found.metadata.name not in besides:
                    return found
            return None

        return await self.until(look, "an Approval appears", name)

    async def until(self, probe: Callable[[], Awaitable[T | None]], what: str, name: str = "") -> T:
        """The first true answer; what is known about the run, if there is none in time."""
        deadline = time.monotonic() + PATIENCE
        while not (answer := await probe()):
            self._alive()
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain: {what}\n{await self.describe(name)}")
            await asyncio.sleep(LOOK)
        return answer

    def _alive(self) -> None:
        for one in self.operators:
            if one.task.done():
                one.task.result()
                raise AssertionError("the operator has stopped by itself")

    async def describe(self, name: str) -> str:
        """For a failure's message."""
        lines: list[str] = []
        with suppress(AgentRunError):
            run = await self.user.get_run(name)
            lines.append(f"status {run.status.to_dict() if run.status else None}")
            row = await self.store.run(run.metadata.uid)
            lines.append(f"row {row}")
        logs = sorted((self.folder / "logs").glob("*.log"))
        tails = (f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)
        return "\n".join((*lines, *tails))

    async def pods(self) -> list[PodView]:
        """All pods, by a cluster of our own, so that it works without an operator."""
        cluster = open_local_cluster(self.folder, ambient={})
        try:
            return list(await cluster.list_pods())
        finally:
            await cluster.close()

    def runner(self, pod_uid: str) -> Identity | None:
        """The runner's process in a pod, once it was started."""
        noted = read_json(self.folder / "pods" / pod_uid / STARTED)
        return Identity.from_dict(noted) if noted else None

    def runner_of(self, pod: str) -> Identity | None:
        """The runner's process of a pod by name, once it was started and while it is there."""
        for home in (self.folder / "pods").iterdir():
            file = read_json(home / POD)
            if file and Path(file["runner"]["log"]).stem == pod:
                return self.runner(home.name)
        return None

    async def signal(self, name: str, number: signal.Signals) -> Identity:
        """Signal the runner that holds the run, without a word to anybody."""
        row = await self.row_where(name, lambda row: row.holder, "the run has an owner")
        identity = self.runner(row.holder or "")
        assert identity is not None
        send(identity, number)
        return identity

    async def stopped(self, name: str) -> Identity:
        """The run's runner once it has stopped itself at a failpoint (SIGSTOP)."""

        async def look() -> Identity | None:
            row = await self.row(name)
            identity = self.runner(row.holder) if row is not None and row.holder else None
            process = find(identity.pid) if identity is not None else None
            return identity if process is not None and process.state.startswith("T") else None

        return await self.until(look, "the runner stops itself", name)

    async def frozen(self, name: str) -> Frozen:
        """The run's pod, once its runner has stopped itself: nothing of it runs any more."""
        runner = await self.stopped(name)
        row = await self.row(name)
        assert row is not None
        assert row.holder is not None
        noted = read_json(self.folder / "pods" / row.holder / SUPERVISOR)
        assert noted is not None
        supervisor = Identity.from_dict(noted)
        send(supervisor, signal.SIGSTOP)
        return Frozen(row.attempts[-1].pod, row.holder, runner, supervisor)

    def workspace(self, pod_uid: str) -> int:
        """The number of a pod's workspace server."""
        noted = read_json(self.folder / "pods" / pod_uid / SUPERVISOR)
        assert noted is not None
        children = [one for one in everything() if one.parent == noted["pid"] and one.alive]
        words = {one.pid: Path(f"/proc/{one.pid}/cmdline").read_bytes() for one in children}
        return next(pid for pid, line in words.items() if b"agentrun.workspace" in line)

    def workspaces(self) -> list[int]:
        """Numbers of all workspace servers that work below this stage's folder."""
        found = []
        for one in everything():
            with suppress(OSError):
                words = Path(f"/proc/{one.pid}/cmdline").read_bytes().split(b"\0")
                if b"agentrun.workspace" in words and os.fsencode(self.folder) in b" ".join(words):
                    found.append(one.pid)
        return found

    async def gone(self, runner: Identity) -> None:
        """Until the process has ended."""

        async def look() -> bool:
            return not alive(runner)

        await self.until(look, "the runner ends")

    def said(self, pod: str) -> list[dict[str, Any]]:
        """What the runner of a pod logged."""
        path = self.folder / "logs" / f"{pod}.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def exit_code(self, pod: str) -> int | None:
        """How the runner says that it ended; None when it was given no time for words."""
        ends = [line["exit_code"] for line in self.said(pod) if line["event"] == "attempt ended"]
        return int(ends[-1]) if ends else None

    async def kill(self, name: str) -> str | None:
        """As ``agentrun kill`` does; None when nothing runs."""
        try:
            return await self.user.kill(name)
        except NotFound:
            return None

    async def apply(self, manifest: Mapping[str, Any]) -> str:
        """Apply a manifest; its name."""
        return (await self.user.apply(manifest)).key.name


@asynccontextmanager
async def stage(
    folder: Path,
    dsns: Dsns,
    *,
    operator: bool = True,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Stage]:
    """A stage in a new folder; everything of it ends with the block."""
    state = folder / "state"
    user = open_local_user(state)
    made = Stage(state, dsns, user, await open_operator_store(dsns.operator), environ or {})
    try:
        if operator:
            await made.start_operator()
        yield made
    finally:
        await made.close()


def failpoint(folder: Path, text: str) -> dict[str, str]:
    """The environment that arms runners with a failpoint, fired once per folder."""
    return {"AGENTRUN_FAILPOINT": text, "AGENTRUN_FAILPOINT_DIR": str(folder / "fired")}


def fired(folder: Path) -> set[str]:
    """Names of the failpoints that have fired."""
    return {path.name.removeprefix("fired-") for path in (folder / "fired").glob("fired-*")}
