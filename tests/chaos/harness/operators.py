"""Operators as processes of their own, which can be killed, and the pods that they have made.

Run as a program (``python operators.py STATE INSTALLATION OPERATOR_DSN RUNNER_DSN``) it is one
operator with the suite's quick settings; what its runners inherit is its own environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

from tests.chaos.harness.grounds import remember
from tests.chaos.harness.stage import LOOK, Stage, quick_settings

from agentrun.cli.postgres import Dsns
from agentrun.cluster.local import open as opening
from agentrun.cluster.local.open import open_local_cluster
from agentrun.controller import app
from agentrun.controller.app import Operator
from agentrun.store.operator_store import open_operator_store

CLOCK = "CHAOS_OPERATOR_CLOCK"
ROOT = Path(__file__).parents[3]
KILLED = -signal.SIGKILL
HISTORY = """
CREATE TABLE IF NOT EXISTS made (uid TEXT PRIMARY KEY, name TEXT, fence INTEGER);
CREATE TRIGGER IF NOT EXISTS pod_made AFTER INSERT ON object WHEN new.kind = 'Pod' BEGIN
  INSERT OR IGNORE INTO made VALUES (
    new.uid, new.name, json_extract(new.body, '$.metadata.annotations."agentrun.dev/fence"')
  );
END;
"""


@dataclass(frozen=True)
class Made:
    """A pod that was created at some time."""

    name: str
    fence: int


def note_pods(stage: Stage) -> None:
    """From now on the object store remembers every pod that is created in it."""
    with closing(sqlite3.connect(stage.folder / "objects.db", timeout=15)) as database:
        database.executescript(HISTORY)


def pods_made(stage: Stage) -> list[Made]:
    """Every pod since ``note_pods``, each once, in the order of their fences."""
    with closing(sqlite3.connect(stage.folder / "objects.db", timeout=15)) as database:
        rows = database.execute("SELECT name, fence FROM made ORDER BY fence, name").fetchall()
    return [Made(str(name), int(fence)) for name, fence in rows]


def spawn(root: Path, stage: Stage, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start an operator over the stage's folder. ``root`` is the session's, for the reaper."""
    words = (str(stage.folder), stage.installation, stage.dsns.operator, stage.dsns.runner)
    path = os.pathsep.join((str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])))
    with (stage.folder / "logs" / "operator.log").open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), *words],
            env={**os.environ, **environ, "PYTHONPATH": path},
            stderr=errors,
        )
    remember(root, process.pid)
    return process


@dataclass
class Keeper:
    """Starts operators anew whenever they have been killed, as a Deployment would."""

    root: Path
    stage: Stage
    environ: Mapping[str, str]
    processes: list[subprocess.Popen[bytes]]
    killed: int = 0

    async def keep(self) -> None:
        """Until cancelled."""
        while True:
            for place, process in enumerate(self.processes):
                code = process.poll()
                if code is None:
                    continue
                assert code == KILLED, f"an operator ended by itself: {code}"
                self.killed += 1
                self.processes[place] = spawn(self.root, self.stage, self.environ)
            await asyncio.sleep(LOOK)


@asynccontextmanager
async def operators(
    root: Path, stage: Stage, environ: Mapping[str, str], count: int = 1
) -> AsyncIterator[Keeper]:
    """``count`` operators at the same time, replaced when they die, all dead after the block."""
    processes = [spawn(root, stage, environ) for _ in range(count)]
    keeper = Keeper(root, stage, environ, processes)
    keeping = asyncio.create_task(keeper.keep())
    try:
        yield keeper
        assert not keeping.done(), keeping.exception()
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        for process in processes:
            process.kill()
            process.wait()


def shift_wall_clock(seconds: float) -> None:
    """From now on this process believes that it is another time."""

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Shifted:
            return super().now(tz) + timedelta(seconds=seconds)

    app.datetime = opening.datetime = Shifted  # type: ignore[attr-defined]


async def serve(folder: Path, installation: str, dsns: Dsns) -> None:
    """One operator, until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    cluster = open_local_cluster(folder, ambient=dict(os.environ))
    store = await open_operator_store(dsns.operator)
    try:
        await Operator(store, cluster, quick_settings(dsns, installation)).run(stop)
    finally:
        await cluster.close()
        await store.close()


if __name__ == "__main__":
    shift_wall_clock(float(os.environ.get(CLOCK, "0")))
    state, name, owner, runner = sys.argv[1:]
    asyncio.run(serve(Path(state), name, Dsns(owner, runner)))
