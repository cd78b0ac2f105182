"""The same lives over the real store: what the fake store promises, PostgreSQL keeps."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.controller.fakes import Clock, FakeCluster
from tests.controller.simulation import ENDS, question
from tests.controller.test_queue import Time, make
from tests.controller.worlds import KEY, run, spec

from agentrun.cluster.values import PodView
from agentrun.controller.cache import Cache
from agentrun.controller.context import Context
from agentrun.controller.freshness import Heartbeat
from agentrun.controller.ledger import Ledger
from agentrun.controller.observe import Observer
from agentrun.controller.poll import Poll
from agentrun.controller.queue import WorkQueue
from agentrun.controller.reconcile import Reconciler
from agentrun.controller.resync import load
from agentrun.controller.settings import Settings
from agentrun.errors import Fenced
from agentrun.run.codec import decode
from agentrun.run.fold import fold
from agentrun.run.state import State
from agentrun.run.values import LastWord
from agentrun.store.embedded import EmbeddedPostgres
from agentrun.store.operator_store import PostgresOperatorStore, open_operator_store
from agentrun.store.port import NewCommit
from agentrun.store.rows import RunRow, RunState, TotalsRow
from agentrun.store.runner_store import open_runner_store
from agentrun.store.runner_store.facade import PostgresRunnerStore

QUICK = Settings(
    installation="pg", image="runner:1", backoff_base=0.0, keep_failed_pod=0.0, resume_wait=0.0
)


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    """One server for the module; runs are told apart by UID and installation."""
    folder = Path(tempfile.mkdtemp(prefix="ar-"))
    folder.chmod(0o711)
    server = EmbeddedPostgres(folder, settings={"fsync": "off", "full_page_writes": "off"})
    server.start()
    yield server
    server.stop(immediate=True)
    shutil.rmtree(folder, ignore_errors=True)


class Moving(Clock):
    """Time as it is: the database's moves by itself."""

    def __call__(self) -> float:
        return time.monotonic()


@dataclass
class Play:
    """A real store, a small cluster, one operator and the pods' scripts."""

    postgres: EmbeddedPostgres
    store: PostgresOperatorStore
    scripts: tuple[tuple[str, ...], ...]
    what: dict[str, Any]
    uid: str = field(default_factory=lambda: str(uuid4()))
    runners: dict[str, PostgresRunnerStore] = field(default_factory=dict)
    position: dict[str, int] = field(default_factory=dict)
    _made: int = 0

    def __post_init__(self) -> None:
        clock = Moving()
        self.cluster = FakeCluster(clock)
        self.cluster.apply(run(spec(**self.what), uid=self.uid))
        self.cache = Cache()
        self.settings = replace(QUICK, installation=f"pg-{self.uid}")
        self.heartbeat = Heartbeat(clock)
        context = Context(
            store=self.store,
            cluster=self.cluster,
            cache=self.cache,
            ledger=Ledger(clock),
            settings=self.settings,
            random_hex=self._hex,
            credentials=self._dsn,
        )
        self.reconciler = Reconciler(Observer(context, self.heartbeat, clock.wall))
        self.queue: WorkQueue = make(Time())
        self.poll = Poll(
            self.store, self.queue, self.heartbeat, clock, self.settings.installation, 1.0
        )

    def _hex(self, size: int) -> str:
        self._made += 1
        return f"{self.uid.replace('-', '')}{self._made:064x}"[-2 * size :].rjust(2 * size, "a")

    async def _dsn(self, _namespace: str) -> str:
        return self.postgres.runner_dsn

    @property
    def shown(self) -> Any:
        return self.cluster.runs[KEY].status

    async def row(self) -> RunRow:
        found = await self.store.run(self.uid)
        assert found is not None
        return found

    async def turn(self) -> None:
        """The operator looks, then every pod does its next thing."""
        await self.poll.once()
        await load(self.cluster, self.cache)
        await self.reconciler.reconcile(KEY)
        for pod in [pod for pod in self.cluster.pods.values() if pod.runner_end is None]:
            await self.advance(pod)

    async def until(self, state: RunState) -> RunRow:
        """Play until the run is there and the operator has seen it."""
        async with asyncio.timeout(60):
            while self.shown is None or (await self.row()).state is not state:
                await self.turn()
            for _ in range(4):
                await self.turn()
        return await self.row()

    async def advance(self, pod: PodView) -> None:
        if pod.deleting:
            self.cluster.end_pod(pod.key, 143)
        elif pod.phase == "Pending":
            self.cluster.set_pod(pod.key, phase="Running", runner_running=True)
        elif pod.uid not in self.runners:
            await self._claim(pod)
        else:
            await self._work(pod)

    async def _claim(self, pod: PodView) -> None:
        secret = self.cluster.secret_of(pod)
        assert secret is not None
        runner = open_runner_store(
            secret.dsn,
            run_uid=self.uid,
            fence=pod.fence or 0,
            secret=secret.secret.encode(),
            holder=pod.uid,
            nonce=uuid4().hex,
            ttl_hint=6.0,
        )
        self.runners[pod.uid] = runner
        await runner.claim()
        self.position[pod.uid] = 0

    async def _work(self, pod: PodView) -> None:
        script = self._script(pod.attempt or 0)
        todo = script[self.position[pod.uid]] if self.position[pod.uid] < len(script) else "finish"
        self.position[pod.uid] += todo != "hang"
        runner = self.runners[pod.uid]
        if todo == "commit":
            await runner.append(_commit(), TotalsRow(turns=1))
        elif todo == "finish":
            end = LastWord(RunState.SUCCEEDED, "Succeeded", "", "the answer")
            await self._last(pod, _commit("run/end"), end)
        elif todo == "ask":
            asked = replace(question(pod.attempt or 0), id=f"apr-{uuid4().hex}")
            end = LastWord(RunState.SUSPENDED, "ApprovalPending", "waits")
            await self._last(pod, replace(_commit("run/suspend"), approvals=(asked,)), end)
        elif todo in ENDS:
            if todo == "drain":
                await runner.release()
            await runner.close()
            self.cluster.end_pod(pod.key, *ENDS[todo])

    async def _last(self, pod: PodView, commit: NewCommit, end: LastWord) -> None:
        runner, code = self.runners[pod.uid], 0
        try:
            await runner.append(commit, TotalsRow(turns=2), end=end)
        except Fenced:
            code = 79
        await runner.close()
        self.cluster.end_pod(pod.key, code)

    def _script(self, attempt: int) -> tuple[str, ...]:
        return self.scripts[attempt - 1] if attempt <= len(self.scripts) else ("commit", "finish")

    def change(self, **more: Any) -> None:
        current = self.cluster.runs[KEY]
        self.cluster.apply(current.model_copy(update={"spec": spec(**{**self.what, **more})}))

    async def close(self) -> None:
        for runner in self.runners.values():
            await runner.close()


def _commit(kind: str = "after_model") -> NewCommit:
    return NewCommit(kind=kind, ref=None, codec=0, body=b"{}", progress=True)


@pytest.fixture
async def plays(postgres: EmbeddedPostgres) -> AsyncIterator[Any]:
    """Makes plays on the server, and takes them down."""
    store = await open_operator_store(postgres.dsn)
    made: list[Play] = []

    def play(*scripts: tuple[str, ...], **what: Any) -> Play:
        made.append(Play(postgres, store, scripts, what))
        return made[-1]

    yield play
    for each in made:
        await each.close()
    await store.close()


@pytest.mark.parametrize(
    ("scripts", "state", "reason", "attempts", "faults"),
    [
        ((), RunState.SUCCEEDED, "Succeeded", 1, (0, 0)),
        ((("commit", "crash"),), RunState.SUCCEEDED, "Succeeded", 2, (1, 0)),
        ((("commit", "oom"), ("commit", "drain")), RunState.SUCCEEDED, "Succeeded", 3, (1, 1)),
        ((("commit", "ask"),), RunState.SUCCEEDED, "Succeeded", 2, (0, 0)),
        ((("ask",), ("drain",), ("ask",)), RunState.SUCCEEDED, "Succeeded", 4, (0, 1)),
        ((("crash",),) * 3, RunState.FAILED, "NoProgress", 3, (3, 0)),
        ((("config",),), RunState.FAILED, "BadConfiguration", 1, (0, 0)),
    ],
)
async def test_a_run_comes_to_the_same_end_whatever_its_attempts_meet(
    plays: Any,
    scripts: tuple[tuple[str, ...], ...],
    state: RunState,
    reason: str,
    attempts: int,
    faults: tuple[int, int],
) -> None:
    play = plays(*scripts)

    async def people() -> None:
        for key, approval in list(play.cluster.approvals.items()):
            if approval.spec.decision is None:
                play.cluster.patch_approval(key, decision="Approve", decided_by="alice")

    real = play.turn

    async def turn() -> None:
        await real()
        await people()

    play.turn = turn
    row = await play.until(state)
    assert (row.state, row.reason, row.attempt) == (state, reason, attempts)
    assert (row.app_faults, row.infra_faults) == faults
    assert len(play.cluster.created) == attempts
    assert (play.shown.phase, play.shown.attempt, play.shown.fence) == (
        state,
        row.attempt,
        row.fence,
    )
    assert not play.cluster.secrets


async def test_suspend_before_the_first_mint_and_resume(plays: Any) -> None:
    play = plays(suspend=True)
    for _ in range(3):
        await play.turn()
    assert (play.shown.phase, play.shown.reason) == ("Suspended", "SuspendedByUser")
    assert not play.cluster.created
    play.change(suspend=False)
    assert (await play.until(RunState.SUCCEEDED)).attempt == 1


async def test_cancel_before_the_first_mint(plays: Any) -> None:
    play = plays(cancel=True)
    row = await play.until(RunState.CANCELLED)
    assert (row.reason, row.attempt) == ("CancelledByUser", 0)
    state = State()
    for commit in (await play.store.commits(play.uid)).commits:
        fold(state, commit.origin, decode(commit.codec, commit.body, {}))
    assert state.outcome is not None
    assert state.outcome.outcome == "Cancelled"


async def test_a_deaf_run_is_cancelled_by_the_operator_and_its_late_commit_is_refused(
    plays: Any,
) -> None:
    play = plays(("commit", "hang"), pod={"terminationGracePeriodSeconds": 1})
    play.settings = replace(play.settings, settle_slack=0.0)
    play.reconciler._observer.context = replace(
        play.reconciler._observer.context, settings=play.settings
    )
    play.reconciler._context = play.reconciler._observer.context
    while not play.cluster.pods or not play.position:
        await play.turn()
    play.change(cancel=True)
    row = await play.until(RunState.CANCELLED)
    assert (row.reason, row.fence, row.attempt) == ("CancelledByUser", 2, 1)
    (runner,) = play.runners.values()
    with pytest.raises(Fenced):
        await runner.append(_commit(), TotalsRow(turns=9))


async def test_deleted_and_revoked(plays: Any) -> None:
    play = plays(("commit", "hang"))
    while not play.position:
        await play.turn()
    play.cluster.remove(KEY)
    await play.turn()
    row = await play.row()
    assert (row.state, row.reason) == (RunState.REVOKED, "Deleted")
    (runner,) = play.runners.values()
    with pytest.raises(Fenced):
        await runner.append(_commit(), TotalsRow(turns=9))


async def test_a_raised_budget_resumes(plays: Any) -> None:
    play = plays(("commit",), limits={"turns": 1})
    while not play.position:
        await play.turn()
    (pod,) = play.cluster.pods.values()
    end = LastWord(RunState.SUSPENDED, "BudgetExceeded", "limits.turns: 1 of 1 used")
    await play._last(pod, _commit("run/suspend"), end)
    for _ in range(3):
        await play.turn()
    assert (play.shown.phase, play.shown.reason) == ("Suspended", "BudgetExceeded")
    assert len(play.cluster.created) == 1
    play.what = {"limits": {"turns": 99}}
    play.change()
    assert (await play.until(RunState.SUCCEEDED)).attempt == 2
