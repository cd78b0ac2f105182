"""How an attempt ends: on its own last commit, or because something outside of it says so."""

from __future__ import annotations

from collections.abc import Sequence

from agentrun.api import Reason
from agentrun.errors import StoreError, StoreRefused
from agentrun.run import boundaries
from agentrun.run.steps import Finish, Step, Suspend
from agentrun.run.values import Boundary, Intent
from agentrun.runner import failpoints
from agentrun.runner.attempt import Attempt
from agentrun.runner.exits import Ending, Exit, ending_of
from agentrun.runner.tail import Entry
from agentrun.store.rows import RunState


class Shutdown:
    """Ends are looked at in one order: broken, fenced or out of reach; told to go; done."""

    def __init__(self, attempt: Attempt, settle: float) -> None:
        self._attempt = attempt
        self._settle = settle
        self._last: tuple[Entry, Ending] | None = None
        self._aborted_at: float | None = None
        self._draining = False

    @property
    def begun(self) -> bool:
        """Whether the last commit is on its way: nothing else happens any more."""
        return self._last is not None

    def forced(self) -> Ending | None:
        """The end that does not wait for anything: landed, broken, out of reach, out of time."""
        attempt = self._attempt
        if self._last is not None and self._last[0].landed.is_set():
            return self._last[1]
        failure = attempt.tail.failure or attempt.flight.failure or self._heard()
        if failure is not None:
            return self._failed(failure)
        if attempt.lease.lost():
            return self._out_of_reach()
        if attempt.lease.tail_old() and not attempt.patient and self._last is None:
            self._fail_run("a commit waited too long for the store")
        if attempt.drain.over:
            return Ending(Exit.DRAINED)
        return None

    def stop_work(self, intent: Intent) -> None:
        """Abort what a cancellation or a drain does not wait for; each once."""
        attempt = self._attempt
        now = attempt.clock.now()
        if intent.requested == "cancel" and not attempt.cancelling:
            attempt.cancelling = True
            self._aborted_at = now
            attempt.flight.abort()
        if self._aborted_at is not None and now - self._aborted_at >= self._settle:
            attempt.flight.abandon()
        if attempt.drain.begun and not self._draining:
            self._draining = True
            attempt.observer.draining(attempt.drain.left)
            attempt.flight.abort(sparing_sent_calls=True)

    def leave(self, steps: Sequence[Step]) -> bool:
        """Make the last commit if it is time; True when nothing new may start.

        What is under way settles first, so that its outcome is not lost with the attempt.
        """
        attempt = self._attempt
        last = next((step for step in steps if isinstance(step, Suspend | Finish)), None)
        if last is None and attempt.parting is None:
            return False
        if not len(attempt.flight):
            if last is not None:
                self._commit(boundaries.settle(last, attempt.state, attempt.spec))
            elif attempt.parting is not None:
                self._commit(attempt.parting())
        return True

    def _commit(self, boundary: Boundary) -> None:
        failpoints.reach(failpoints.BEFORE_FINAL_COMMIT)
        entry = self._attempt.commit(boundary)
        entry.then = lambda: failpoints.reach(failpoints.AFTER_FINAL_COMMIT)
        assert boundary.last is not None
        failed = boundary.last.state == RunState.FAILED
        code = Exit.FAILED if failed else Exit.DONE
        self._last = entry, Ending(code, boundary.last.reason, boundary.last.message)

    def _heard(self) -> Exception | None:
        """What the renewals were told, if it was not for the loop."""
        try:
            self._attempt.store.control()
        except StoreError as error:
            return error
        return None

    def _failed(self, failure: BaseException) -> Ending | None:
        attempt = self._attempt
        if isinstance(failure, StoreRefused) and not attempt.patient and self._last is None:
            attempt.tail.give_up()
            self._fail_run("the store refused a commit")
            return None
        if isinstance(failure, StoreError):
            return ending_of(failure)
        raise failure

    def _fail_run(self, why: str) -> None:
        """onSaveFailure Fail: the run fails, as soon as that can be written."""
        attempt = self._attempt
        attempt.cancelling = True
        attempt.flight.abort()
        step = Finish("Failed", Reason.SAVE_FAILED, why)
        self._commit(boundaries.settle(step, attempt.state, attempt.spec))

    def _out_of_reach(self) -> Ending:
        """No answer for too long. A run that was to fail loudly is not tried again."""
        if self._last is not None and self._last[1].reason == Reason.SAVE_FAILED:
            return Ending(Exit.CONFIG, Reason.SAVE_FAILED, self._last[1].message)
        return Ending(Exit.RETRY, Reason.STORE_UNAVAILABLE, "the store gave no answer")
