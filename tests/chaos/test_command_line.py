"""``agentrun run`` that is killed or interrupted, and given again: the same run goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.chaos.harness import oracle, scenes
from tests.chaos.harness.concurrent_tests import overlapping
from tests.chaos.harness.grounds import Grounds, remember
from tests.chaos.harness.oracle import Trail, trail
from tests.chaos.harness.reference import TURNS, undisturbed, undisturbed_long
from tests.chaos.harness.stage import LOOK, PATIENCE, Stage
from tests.peers.modelscripts import Script, save
from tests.peers.toolserver import lines

from agentrun.cli.postgres import local_postgres
from agentrun.cluster.local.open import open_local_user
from agentrun.store.operator_store import open_operator_store


@dataclass
class Terminal:
    """A folder in which somebody types commands."""

    shared: Grounds
    folder: Path
    script: Script

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def log(self) -> Path:
        return self.folder / "model.jsonl"

    def prepare(self) -> None:
        manifest = scenes.manifest("http://127.0.0.1:9", self.shared.tools.url)
        (self.folder / "run.yaml").write_text(yaml.safe_dump(manifest))
        save(self.script, self.folder / "model.yaml")

    def run(self) -> subprocess.Popen[bytes]:
        """The same command each time."""
        script = ("--model-script", str(self.folder / "model.yaml"), "--model-log", str(self.log))
        return self._start("run", str(self.folder / "run.yaml"), *script)

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "terminal").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "agentrun.cli", *words, "--state", str(self.state)],
                env={**os.environ, "AGENTRUN_BACKOFF_SECONDS": "0.05"},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        remember(self.shared.root, process.pid)
        return process

    async def code(self, process: subprocess.Popen[bytes]) -> int:
        """Exit code of a command, which is killed if it does not end."""
        try:
            return await asyncio.to_thread(process.wait, PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError((self.folder / "terminal").read_text()) from None

    async def verify(self) -> int:
        return await self.code(self._start("verify", "run"))

    async def asked(self, times: int, process: subprocess.Popen[bytes]) -> None:
        """Until the model has got so many requests."""
        while len(lines(self.log)) < times:
            assert process.poll() is None, (self.folder / "terminal").read_text()
            await asyncio.sleep(LOOK)

    async def trail(self) -> Trail:
        async with local_postgres(self.state) as dsns:
            store = await open_operator_store(dsns.operator)
            made = Stage(self.state, dsns, open_local_user(self.state), store)
            try:
                return await trail(made, "run", self.log, self.shared.tools.effects)
            finally:
                await made.close()


@asynccontextmanager
async def terminal(shared: Grounds, script: Script) -> AsyncIterator[Terminal]:
    """Whatever is still running at the end is the reaper's."""
    made = Terminal(shared, shared.folder("terminal"), script)
    made.prepare()
    yield made


@overlapping
async def test_a_killed_command_given_again_goes_on_with_the_same_attempt(
    shared: Grounds,
) -> None:
    """Pods, database and scripted model are not the command's: its death disturbs nobody."""
    async with terminal(shared, scenes.long(TURNS)) as typed:
        first = typed.run()
        await typed.asked(2, first)
        first.kill()
        await typed.code(first)
        code = await typed.code(typed.run())
        verified = await typed.verify()
        found = await typed.trail()
        logs = [path.read_text() for path in (typed.state / "logs").glob("run-*.log")]

    assert (code, verified) == (0, 0)
    assert not any("model call failed" in log for log in logs), "the model moved away"
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, await shared.once(undisturbed_long))
    oracle.check_same_end(found, await shared.once(undisturbed_long))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (1, 0, 0)


@overlapping
async def test_an_interrupted_command_gives_its_run_back_and_goes_on_when_given_again(
    shared: Grounds,
) -> None:
    async with terminal(shared, scenes.everything()) as typed:
        first = typed.run()
        await typed.asked(2, first)
        first.send_signal(signal.SIGINT)
        interrupted = await typed.code(first)
        code = await typed.code(typed.run())
        found = await typed.trail()

    assert (interrupted, code) == (130, 0)
    oracle.check_record(found)
    oracle.check_effects(found)
    oracle.check_requests(found, await shared.once(undisturbed))
    oracle.check_same_end(found, await shared.once(undisturbed))
    assert (found.row.attempt, found.row.app_faults, found.row.infra_faults) == (2, 0, 1)
