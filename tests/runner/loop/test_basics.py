"""A run from its first commit to its outcome, and what each way of ending leaves behind."""

from __future__ import annotations

from tests.runner.loop.fakes import Stage, asks, text
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.runner.exits import Exit


def two_rounds(turn: int) -> object:
    return (asks("look", turn=0), asks("fix", "look", turn=1), text("done"))[turn]


def test_a_run_succeeds_and_says_so() -> None:
    async def scene() -> None:
        stage = Stage(make_spec(), two_rounds)
        ending = await stage.attempt()

        assert ending is not None
        assert ending.code is Exit.DONE
        assert stage.db.state == "Succeeded"
        assert stage.db.preview == "done"
        assert stage.db.kinds == [
            "toolset/offered",
            "task/status",
            "assistant/message",
            "tool/result",
            "user/message",
            "assistant/message",
            "tool/result",
            "tool/result",
            "user/message",
            "assistant/message",
            "task/status",
            "run/end",
        ]
        assert set(stage.tools.effects.values()) == {1}
        assert stage.db.totals.turns == 3
        assert stage.db.totals.tool_calls == 3
        assert stage.store is not None
        assert stage.store.closed

    run(scene())
