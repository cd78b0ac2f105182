"""A small world in which reconcilers, pods, people and time take turns, one port call at a time.

Every call of a port is a turn: another operator may go in between, and the operator may die before
or after the call took effect. Nothing here waits; time moves when a test moves it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.controller.fakes import Clock, FakeCluster, FakeStore
from tests.controller.worlds import INSTALLATION, KEY, UID, run, spec

from agentrun.api import AgentRun, Approval
from agentrun.cluster.values import ObjectKey, PodView
from agentrun.controller.cache import Cache, object_key
from agentrun.controller.context import Context
from agentrun.controller.freshness import Heartbeat
from agentrun.controller.ledger import Ledger
from agentrun.controller.observe import Observer
from agentrun.controller.reconcile import Reconciler
from agentrun.controller.resync import load
from agentrun.controller.settings import Settings
from agentrun.errors import AgentRunError
from agentrun.run.approvals import content_hash
from agentrun.run.exact import canonical_json
from agentrun.run.identity import approval_request_id
from agentrun.run.values import Question
from agentrun.store.rows import Requested, RunRow, RunState

QUICK = Settings(
    installation=INSTALLATION,
    image="runner:1",
    runner_dsn="postgresql://r",
    backoff_base=1.0,
    keep_failed_pod=30.0,
)
STEP = 5.0
"""How far time moves at once: well within a third of the lease, so that polls leave no gap."""


class Crash(BaseException):
    """SIGKILL: nothing of the process is left."""


class Turn:
    """Let somebody else go first."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, without letting anybody in between."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value


class Tap:
    """A port whose every call is a turn, and at any of which its caller may die."""

    def __init__(self, port: Any, operator: OperatorSim) -> None:
        self._port, self._operator = port, operator

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._port, name)

        async def call(*args: Any, **more: Any) -> Any:
            await Turn()
            self._operator.burn()
            answer = await real(*args, **more)
            self._operator.burn()
            return answer

        return call


class OperatorSim:
    """One operator process; ``fuse`` is how many more call borders it lives."""

    def __init__(self, sim: Sim, settings: Settings = QUICK) -> None:
        self.sim, self.settings = sim, settings
        self.fuse: int | None = None
        self.crashes = 0
        self.verified = True
        self.reached: list[str] = []
        self.start()

    def start(self) -> None:
        """A fresh process: empty memory, caches loaded before anything is planned."""
        self._coroutine: Coroutine[Any, Any, float | None] | None = None
        self.wait: float | None = 0.0
        self.cache = Cache()
        self.ledger = Ledger(self.sim.clock)
        self.heartbeat = Heartbeat(self.sim.clock)
        context = Context(
            store=Tap(self.sim.store, self),
            cluster=Tap(self.sim.cluster, self),
            cache=self.cache,
            ledger=self.ledger,
            settings=self.settings,
            random_hex=self.sim.random_hex,
            credentials=self._dsn,
            reach=self.reached.append,
        )
        self.observer = Observer(context, self.heartbeat, self.sim.clock.wall)
        self.observer.identity_verified = self.verified
        self.reconciler = Reconciler(self.observer)
        self.read = len(self.sim.cluster.changes_log)
        drive(load(self.sim.cluster, self.cache))
        self.heartbeat.polled()

    async def _dsn(self, _namespace_uid: str) -> str:
        return self.settings.runner_dsn

    def burn(self) -> None:
        """One border passed; the last one is the end."""
        if self.fuse is None:
            return
        self.fuse -= 1
        if self.fuse < 0:
            self.fuse = None
            raise Crash

    def deliver(self, count: int | None = None) -> None:
        """Take so many events of the watches (all of them by default)."""
        log = self.sim.cluster.changes_log
        until = len(log) if count is None else min(self.read + count, len(log))
        for change in log[self.read : until]:
            self._apply(change.item, deleted=change.deleted)
        self.read = until

    def _apply(self, item: AgentRun | Approval | PodView, *, deleted: bool) -> None:
        cache = self.cache
        if isinstance(item, AgentRun):
            cache.remove_run(item) if deleted else cache.put_run(item)
        elif isinstance(item, Approval):
            key, uid = object_key(item), item.metadata.uid
            cache.remove_approval(key, uid) if deleted else cache.put_approval(item)
        else:
            cache.remove_pod(item.key, item.uid) if deleted else cache.put_pod(item)

    def step(self) -> bool:
        """One port call further; True when a reconcile has ended (or the process has)."""
        if self._coroutine is None:
            self._coroutine = self.reconciler.reconcile(KEY)
        try:
            self._coroutine.send(None)
        except StopIteration as end:
            self._coroutine, self.wait = None, end.value
            return True
        except Crash:
            self.crashes += 1
            self.start()
            return True
        except AgentRunError:
            self._coroutine, self.wait = None, 1.0
            return True
        return False

    def reconcile(self) -> float | None:
        """To the end of the reconcile that is under way, or of a new one."""
        while not self.step():
            pass
        return self.wait


@dataclass
class Sim:
    """Clock, store, cluster, operators, and how each attempt's pod behaves.

    ``scripts[n]`` is what the pod of attempt n+1 does after its claim: commit, finish, ask, crash,
    oom, drain, config, freeze (dead but there), hang (alive, deaf). An attempt without one commits
    and finishes. ``unstartable`` attempts end before their claim.
    """

    scripts: tuple[tuple[str, ...], ...] = ()
    unstartable: frozenset[int] = frozenset()
    what: dict[str, Any] = field(default_factory=dict)
    operators_count: int = 1
    settings: Settings = QUICK

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.store, self.cluster = FakeStore(self.clock), FakeCluster(self.clock)
        self._random = 0
        self._progress: dict[str, int] = {}
        self._frozen: set[str] = set()
        self.effects: list[tuple[int, str]] = []
        self.cluster.apply(run(spec(**self.what)))
        self.operators = [OperatorSim(self, self.settings) for _ in range(self.operators_count)]

    def random_hex(self, size: int) -> str:
        """Different every time, the same in every run of the test."""
        self._random += 1
        return f"{self._random:0{2 * size}x}"[-2 * size :]

    @property
    def row(self) -> RunRow:
        """The run as the store has it."""
        found = self.store.facts(UID)
        assert found is not None
        return found

    @property
    def shown(self) -> Any:
        """The status in the cluster."""
        return self.cluster.runs[KEY].status

    def change(self, **more: Any) -> None:
        """A user edits the spec."""
        current = self.cluster.runs[KEY]
        self.cluster.apply(current.model_copy(update={"spec": spec(**{**self.what, **more})}))

    # Pods.

    def live_pods(self) -> list[PodView]:
        """Pods whose runner has not ended."""
        return [pod for pod in self.cluster.pods.values() if pod.runner_end is None]

    def advance(self, pod: PodView) -> None:
        """The pod does its next thing."""
        if pod.uid in self._frozen:
            return
        if pod.deleting:
            self.store.release(UID, pod.fence or 0, pod.uid)
            self.cluster.end_pod(pod.key, 143)
        elif pod.phase == "Pending":
            if self.cluster.secret_of(pod) is not None:
                self.cluster.set_pod(pod.key, phase="Running", runner_running=True)
        elif not self._claimed(pod):
            self._claim(pod)
        else:
            self._work(pod)

    def _claimed(self, pod: PodView) -> bool:
        return pod.uid in self._progress

    def _claim(self, pod: PodView) -> None:
        if pod.attempt in self.unstartable:
            self.cluster.end_pod(pod.key, 1)
            return
        secret = self.cluster.secret_of(pod)
        if secret is None or not self.store.claim(UID, pod.fence or 0, secret.secret, pod.uid):
            self.cluster.end_pod(pod.key, 79)
            return
        self._progress[pod.uid] = 0

    def _work(self, pod: PodView) -> None:
        fence, position = pod.fence or 0, self._progress[pod.uid]
        script = self._script(pod.attempt or 0)
        todo = script[position] if position < len(script) else "finish"
        asked = self.row.requested
        if todo not in ("freeze", "hang") and asked is not Requested.RUN:
            self._obey(pod, asked)
            return
        if todo == "commit" and not self.store.append(UID, fence, pod.uid):
            self.cluster.end_pod(pod.key, 79)
            return
        if todo == "commit":
            self.effects.append((pod.attempt or 0, pod.uid))
        self._progress[pod.uid] += todo not in ("freeze", "hang")
        if todo in ("finish", "ask"):
            self._last_word(pod, todo)
        elif todo == "freeze":
            self._frozen.add(pod.uid)
        elif todo in ENDS:
            if todo == "drain":
                self.store.release(UID, fence, pod.uid)
            self.cluster.end_pod(pod.key, *ENDS[todo])

    def _script(self, attempt: int) -> tuple[str, ...]:
        index = attempt - 1
        return self.scripts[index] if index < len(self.scripts) else ("commit", "finish")

    def _obey(self, pod: PodView, asked: Requested) -> None:
        cancel = asked is Requested.CANCEL
        state = RunState.CANCELLED if cancel else RunState.SUSPENDED
        reason = "CancelledByUser" if cancel else "SuspendedByUser"
        landed = self.store.append(UID, pod.fence or 0, pod.uid, state=state, reason=reason)
        self.cluster.end_pod(pod.key, 0 if landed else 79)

    def _last_word(self, pod: PodView, todo: str) -> None:
        asks = todo == "ask"
        state = RunState.SUSPENDED if asks else RunState.SUCCEEDED
        landed = self.store.append(
            UID,
            pod.fence or 0,
            pod.uid,
            state=state,
            reason="ApprovalPending" if asks else "",
            questions=(question(pod.attempt or 0),) if asks else (),
        )
        self.cluster.end_pod(pod.key, 0 if landed else 79)

    # People and time.

    def decide_all(self, decision: str = "Approve") -> None:
        """Alice decides whatever is open."""
        for key, approval in list(self.cluster.approvals.items()):
            if approval.spec.decision is None:
                self.cluster.patch_approval(key, decision=decision, decided_by="alice")

    def pass_time(self, seconds: float) -> None:
        """Time moves; the living renew, the operators poll."""
        while seconds > 0:
            step = min(seconds, STEP)
            self.clock.seconds += step
            seconds -= step
            for pod in self.live_pods():
                if pod.uid not in self._frozen:
                    self.store.renew(UID, pod.fence or 0, pod.uid)
            if self.store.up:
                for operator in self.operators:
                    operator.heartbeat.polled()

    def settle(self, rounds: int = 300, *, people: bool = True) -> None:
        """Let everybody do what they can until nothing is left to do or to wait for."""
        for _ in range(rounds):
            before = self._picture()
            for operator in self.operators:
                operator.deliver()
                operator.reconcile()
            self.cluster.collect()
            for pod in self.live_pods():
                self.advance(pod)
            if people:
                self.decide_all()
            if self._picture() != before:
                continue
            waits = [o.wait for o in self.operators if o.wait is not None]
            if not waits:
                return
            self.pass_time(max(min(waits), 0.1))
        raise AssertionError(f"does not come to rest: {self.row.state}, {self.shown.reason}")

    def _picture(self) -> tuple[Any, ...]:
        """Everything that anybody could have changed."""
        return (len(self.cluster.changes_log), self.store.rows.get(UID), len(self.store.mints))

    def pods_by_fence(self) -> dict[int, int]:
        """How many pods were ever created for each fence."""
        fences: dict[int, int] = {}
        for _, fence, _ in self.cluster.created:
            fences[fence] = fences.get(fence, 0) + 1
        return fences


ENDS = {"crash": (1,), "oom": (137, "OOMKilled"), "drain": (143,), "config": (78,), "kill": (137,)}


def question(attempt: int) -> Question:
    """A question that the pod of this attempt asks."""
    content = {"tool": "ops.restart", "argumentsJSON": "{}", "agent": "sre", "task": "main"}
    boundary = f"main/1/{attempt}/0"
    return Question(
        id=approval_request_id(UID, "Tool", boundary, 1),
        scope="Tool",
        boundary=boundary,
        ordinal=1,
        content=canonical_json(content),
        content_hash=content_hash("Tool", boundary, content),
        reason="restarts production",
    )


def pod_of(sim: Sim) -> PodView:
    """The only pod there is."""
    (pod,) = sim.cluster.pods.values()
    return pod


def approvals(sim: Sim) -> Iterable[ObjectKey]:
    """The approvals there are."""
    return list(sim.cluster.approvals)
