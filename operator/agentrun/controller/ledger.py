"""What one operator process remembers between reconciles. Losing it costs a wait, never safety."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agentrun.api import Reason
from agentrun.controller.world import Trouble
from agentrun.store.rows import RunRow, RunState

RETRY_CAP = 60.0
REPEAT_AFTER = 600.0


@dataclass(slots=True)
class Issued:
    """The secret of the current fence that this process made, and the Secret that holds it."""

    fence: int
    secret: str = field(repr=False)
    suffix: str
    secret_name: str | None = None
    count: int = 1
    created: bool = False
    """Whether the pod that uses it was created by this process."""


@dataclass(slots=True)
class _Retry:
    reason: Reason
    message: str
    step: int
    until: float


class Ledger:
    """Secrets issued, requests first seen, troubles met, patches written, Events posted."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._issued: dict[str, Issued] = {}
        self._requested: dict[str, tuple[tuple[str, str], float]] = {}
        self._troubles: dict[str, _Retry] = {}
        self._patched: dict[str, float] = {}
        self._littered: set[str] = set()
        self._purged: dict[str, int] = {}
        self._events: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._terminating: set[str] = set()
        self._namespaces: dict[str, str] = {}

    def issued(self, row: RunRow) -> Issued | None:
        """The secret for the row's fence, if this process issued one."""
        known = self._issued.get(row.run_uid)
        return known if known is not None and known.fence == row.fence else None

    def issue(self, row: RunRow, secret: str, suffix: str) -> Issued:
        """Remember a secret that the store has accepted."""
        known = self.issued(row)
        issued = Issued(row.fence, secret, suffix, count=known.count + 1 if known else 1)
        self._issued[row.run_uid] = issued
        return issued

    def note(self, row: RunRow) -> None:
        """See a row: what it asks for since when, and whether it may leave Secrets behind."""
        asked = (str(row.requested), row.requested_reason)
        known = self._requested.get(row.run_uid)
        if known is None or known[0] != asked:
            self._requested[row.run_uid] = (asked, self._clock())
        if row.state is RunState.ACTIVE:
            self._littered.add(row.run_uid)

    def in_work(self, uid: str) -> bool:
        """Whether the run was seen unfinished and not finished since, whatever its status says."""
        return uid in self._requested

    def requested_age(self, row: RunRow) -> float:
        """How long this process has seen the row ask for what it asks for."""
        known = self._requested.get(row.run_uid)
        return self._clock() - known[1] if known is not None else 0.0

    def stray_secrets(self, row: RunRow, *, shown: bool) -> bool:
        """Whether Secrets may exist that no pod needs. ``shown``: the end of the run is in its
        status, which is written after they were purged.

        While a pod runs, its own Secret stays (the kubelet remounts it); so nothing is purged under
        a pod whose Secret this process does not know.
        """
        if row.state is RunState.ACTIVE:
            used = self.issued(row)
            return (
                used is not None
                and used.created
                and row.run_uid in self._littered
                and (row.attempt > 1 or used.count > 1)
            )
        unknown = row.state.terminal and row.attempt > 0 and not shown
        return row.run_uid in self._littered or (
            unknown and self._purged.get(row.run_uid) != row.fence
        )

    def purged(self, row: RunRow) -> None:
        """The Secrets of a run that no pod needs are gone."""
        self._littered.discard(row.run_uid)
        self._purged[row.run_uid] = row.fence

    def trouble(self, uid: str) -> Trouble | None:
        """Why the last try for this object failed, and how long until the next."""
        known = self._troubles.get(uid)
        if known is None:
            return None
        return Trouble(known.reason, known.message, max(known.until - self._clock(), 0.0))

    def troubled(self, uid: str, reason: Reason, message: str) -> None:
        """A try failed; the next one waits twice as long, at most a minute."""
        known = self._troubles.get(uid)
        step = known.step + 1 if known is not None else 0
        wait = min(2.0**step, RETRY_CAP)
        self._troubles[uid] = _Retry(reason, message, min(step, 10), self._clock() + wait)

    def untroubled(self, uid: str) -> None:
        """A try succeeded."""
        self._troubles.pop(uid, None)

    def patched(self, uid: str) -> None:
        """A status was written."""
        self._patched[uid] = self._clock()

    def since_patch(self, uid: str) -> float | None:
        """Seconds since this process wrote the object's status."""
        when = self._patched.get(uid)
        return None if when is None else self._clock() - when

    def first_time(self, uid: str, reason: str, note: str) -> bool:
        """Whether an Event is worth posting: repeats within ten minutes are one (conventions 23)."""
        now, key = self._clock(), (uid, reason, note)
        while self._events and now - next(iter(self._events.values())) >= REPEAT_AFTER:
            self._events.popitem(last=False)
        if key in self._events:
            return False
        self._events[key] = now
        return True

    def namespace_is_terminating(self, namespace: str, uids: Iterable[str]) -> None:
        """Nothing can be created any more for the objects that are in it (H24). Others that come
        under its name live in another namespace."""
        self._terminating.update(uids)
        self.forget_namespace(namespace)

    def terminating(self, uid: str) -> bool:
        """Whether the object's namespace was seen going away."""
        return uid in self._terminating

    def forget_namespace(self, namespace: str) -> None:
        """It may be another one next time."""
        self._namespaces.pop(namespace, None)

    def recheck_namespaces(self) -> None:
        """A namespace of that name may exist anew."""
        self._terminating.clear()
        self._namespaces.clear()

    def namespace_uid(self, namespace: str) -> str | None:
        """UID of the namespace, once asked for."""
        return self._namespaces.get(namespace)

    def remember_namespace(self, namespace: str, uid: str) -> None:
        """Keep it: one read a namespace, not one a run."""
        self._namespaces[namespace] = uid

    def forget(self, uid: str) -> None:
        """The object is gone or finished."""
        self._issued.pop(uid, None)
        self._requested.pop(uid, None)
        self._troubles.pop(uid, None)
        self._patched.pop(uid, None)
        self._purged.pop(uid, None)
        self._littered.discard(uid)
