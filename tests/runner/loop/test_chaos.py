"""Any sequence of disturbances, each in its own attempt; then the run ends as if there had been none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.run.fold import check
from agentrun.run.records import ToolResult
from agentrun.run.values import Reply
from agentrun.store.rows import Requested

ROUNDS = (
    asks("look", "fix", turn=0),
    asks("look", turn=1),
    asks("fix", "look", "look", turn=2),
    text("done"),
)
SLOW = {"look": 3.0, "fix": 7.0}
THINKING = 5.0
LONG = 60.0


@dataclass(frozen=True)
class Trouble:
    """One disturbance of one attempt, ``after`` seconds from its start."""

    name: str
    after: float
    lasts: float = 0.0
    point: int = 0


def script(turn: int) -> Reply:
    return ROUNDS[turn]


def stage(spec: dict[str, Any]) -> Stage:
    made = Stage(make_spec(**spec), script)
    made.tools.seconds = SLOW
    made.model.seconds = THINKING
    return made


def _kill(made: Stage, trouble: Trouble) -> None:
    made.kill.at = trouble.point


def _drain(made: Stage, trouble: Trouble) -> None:
    made.grace = trouble.lasts
    made.later(trouble.after, lambda: made.drain and made.drain.begin())


def _outage(made: Stage, trouble: Trouble) -> None:
    made.later(trouble.after, made.db.take_away)
    made.later(trouble.after + trouble.lasts, made.db.give_back)


def _fence(made: Stage, trouble: Trouble) -> None:
    made.later(trouble.after, made.db.fence_off)


def _suspend(made: Stage, trouble: Trouble) -> None:
    def wish(what: Requested) -> Callable[[], None]:
        return lambda: setattr(made.db, "requested", what)

    made.later(trouble.after, wish(Requested.SUSPEND))
    made.later(trouble.after + trouble.lasts, wish(Requested.RUN))


TROUBLES = {
    "kill": _kill,
    "drain": _drain,
    "outage": _outage,
    "fence": _fence,
    "suspend": _suspend,
}
troubles = st.builds(
    Trouble,
    name=st.sampled_from(sorted(TROUBLES)),
    after=st.floats(min_value=0.1, max_value=LONG),
    lasts=st.floats(min_value=1.0, max_value=80.0),
    point=st.integers(min_value=0, max_value=40),
)
specs = st.sampled_from([{}, {"checkpoint": {"position": "Both"}}])
RECORDED = {"toolPolicies": [{"tools": ["ops.fix"], "onUnknown": "Ask"}]}
"""Its calls have start records, and a call that was started three times is not sent again."""

scenes = st.one_of(
    st.tuples(specs, st.lists(troubles, max_size=5)),
    st.tuples(st.just(RECORDED), st.lists(troubles, max_size=2)),
)


async def disturbed(made: Stage, sequence: list[Trouble]) -> None:
    """One attempt per disturbance, then as many as it takes (one, unless something is wrong)."""
    for trouble in [*sequence, None, None]:
        if trouble is not None:
            TROUBLES[trouble.name](made, trouble)
        await made.attempt()
        made.calm()
        made.kill.at = None
        made.kill.passed.clear()
        made.grace = 30.0
        made.db.requested = Requested.RUN
        made.db.give_back()
        if made.db.state not in ("Active", "Suspended"):
            return


@settings(max_examples=60, deadline=None)
@given(scenes)
def test_the_run_ends_as_if_nothing_had_happened(
    drawn: tuple[dict[str, Any], list[Trouble]],
) -> None:
    spec, sequence = drawn

    async def scene() -> None:
        whole = stage(spec)
        await whole.attempt()
        made = stage(spec)
        await disturbed(made, sequence)

        db = made.db
        assert db.state == "Succeeded"
        assert db.transcript == whole.db.transcript
        assert db.totals == whole.db.totals
        check(db.folded())
        results = Counter(r.call for r in db.records() if isinstance(r, ToolResult))
        assert set(results.values()) == {1}
        assert made.tools.effects.keys() == whole.tools.effects.keys()
        assert all(count <= db.attempt for count in made.tools.effects.values())
        assert dict(made.model.requests) == dict(whole.model.requests)
        assert [c.fence for c in db.commits] == sorted(c.fence for c in db.commits)
        assert [c.seq for c in db.commits] == list(range(1, db.seq + 1))

    run(scene())
