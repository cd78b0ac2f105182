"""Killed anywhere, a run ends as if nothing had happened.

Each run is played once without a fault; then once for every point that it passed (before and after
each append, model call and tool effect), killed there and continued by the next attempt; then with
several kills at points that Hypothesis chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.api import AgentRunSpec
from agentrun.run.fold import check
from agentrun.run.records import ToolResult
from agentrun.run.values import Reply
from agentrun.runner.exits import Exit


@dataclass(frozen=True)
class Story:
    """A run to be killed."""

    spec: AgentRunSpec
    script: Callable[[int], Reply]
    approve: bool = False
    rerun_at_most_once: bool = False


def line(*replies: Reply) -> Callable[[int], Reply]:
    return lambda turn: replies[turn]


ROUNDS = line(asks("look", turn=0), asks("fix", "look", "look", turn=1), text("done"))
GATED = make_spec(toolPolicies=[{"tools": ["ops.fix"], "approval": "Always"}])
STARTED = make_spec(toolPolicies=[{"tools": ["ops.fix"], "onUnknown": "Ask"}])

STORIES = {
    "answer": Story(make_spec(agents=[{"name": "sre"}]), line(text("hi"))),
    "one call": Story(make_spec(), line(asks("look", turn=0), text("done"))),
    "parallel calls": Story(make_spec(), ROUNDS),
    "bookmarks": Story(make_spec(checkpoint={"position": "Both"}), ROUNDS),
    "fail on save": Story(make_spec(checkpoint={"onSaveFailure": "Fail"}), ROUNDS),
    "gated": Story(GATED, ROUNDS, approve=True),
    "refused": Story(make_spec(), line(asks("nothing", "look", turn=0), text("done"))),
}


async def told(story: Story, kills: list[int]) -> Stage:
    """Play the story, killing the n-th attempt at the n-th point (counted in that attempt)."""
    stage = Stage(story.spec, story.script)
    for at in [*kills, None, None, None, None, None, None]:
        stage.kill.at = at
        stage.kill.passed.clear()
        await stage.attempt()
        if stage.db.state == "Suspended" and story.approve:
            stage.db.decide("Approve")
        elif stage.db.state not in ("Active", "Suspended"):
            return stage
    raise AssertionError(f"the run does not end: {stage.db.state}")


def hold_together(stage: Stage, whole: Stage, kills: int) -> None:
    """What must be true of every run, however often it was killed."""
    db = stage.db
    assert db.state == whole.db.state
    assert db.transcript == whole.db.transcript
    assert db.preview == whole.db.preview
    assert db.totals == whole.db.totals
    check(db.folded())
    results = Counter(r.call for r in db.records() if isinstance(r, ToolResult))
    assert set(results.values()) <= {1}
    assert stage.tools.effects.keys() == whole.tools.effects.keys()
    assert all(count <= 1 + kills for count in stage.tools.effects.values())
    assert dict(stage.model.requests) == dict(whole.model.requests), "another request was sent"
    for sent in set(stage.model.requests):
        assert stage.model.requests.count(sent) <= 1 + kills
    assert [commit.seq for commit in db.commits] == list(range(1, db.seq + 1))
    assert [c.fence for c in db.commits] == sorted(c.fence for c in db.commits)


@pytest.mark.parametrize("name", STORIES)
def test_killed_at_every_point_the_run_ends_the_same(name: str) -> None:
    async def scene() -> None:
        story = STORIES[name]
        whole = await told(story, [])
        points = await lengths(story)
        assert points > 4
        for at in range(points):
            stage = await told(story, [at])
            hold_together(stage, whole, 1)
            assert stage.endings[0] is None, "the first attempt was not killed"
            assert stage.db.attempt >= whole.db.attempt

    async def lengths(story: Story) -> int:
        """Points of the first attempt; a gated story's later attempts are killed below."""
        stage = Stage(story.spec, story.script)
        await stage.attempt()
        return len(stage.kill.passed)

    run(scene())


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(STORIES)),
    kills=st.lists(st.integers(min_value=0, max_value=30), min_size=2, max_size=4),
)
def test_killed_several_times_the_run_ends_the_same(name: str, kills: list[int]) -> None:
    async def scene() -> None:
        story = STORIES[name]
        hold_together(await told(story, kills), await told(story, []), len(kills))

    run(scene())


def test_h1_a_reply_that_requests_calls_is_durable_before_any_of_them_runs() -> None:
    """H1: killed between the reply and its commit, no effect exists that the record does not know."""

    async def scene() -> None:
        story = STORIES["one call"]
        passed = (await told(story, [])).kill.passed
        at = passed.index("before assistant/message")
        stage = Stage(story.spec, story.script)
        stage.kill.at = at
        assert await stage.attempt() is None
        assert not stage.tools.effects

        stage.kill.at = None
        await stage.attempt()
        assert list(stage.tools.effects.values()) == [1]

    run(scene())


def test_h1_no_tool_runs_while_the_store_does_not_take_the_reply() -> None:
    """Replies that request calls are strict, although a result may wait (onSaveFailure Continue)."""

    async def scene() -> None:
        story = STORIES["parallel calls"]
        stage = Stage(story.spec, story.script)
        stage.kill.acts["before assistant/message"] = stage.stick
        ending = await stage.attempt()
        assert ending is not None
        assert ending.code is Exit.RETRY
        assert len(stage.model.requests) == 1
        assert not stage.tools.requests

        stage.kill.acts.clear()
        await stage.attempt()
        assert stage.db.state == "Succeeded"

    run(scene())


def test_a_result_between_effect_and_commit_is_sent_again_with_the_same_key() -> None:
    async def scene() -> None:
        story = STORIES["one call"]
        passed = (await told(story, [])).kill.passed
        stage = await told(story, [passed.index("after look")])

        assert list(stage.tools.requests.values()) == [2]

    run(scene())


def test_a_committed_result_is_never_run_again() -> None:
    async def scene() -> None:
        story = STORIES["parallel calls"]
        passed = (await told(story, [])).kill.passed
        after_results = [i for i, point in enumerate(passed) if point == "after tool/result"]
        stage = await told(story, [after_results[-1]])

        assert set(stage.tools.effects.values()) == {1}

    run(scene())
