"""Tool servers: what is offered, what differs after a restart, and files before the first call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from tests.runner.loop.fakes import Stage, asks, change, says, text, tool
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.errors import NotSent, ToolServerUnavailable
from agentrun.run import boundaries
from agentrun.run.records import ToolResult, ToolsetOffered
from agentrun.run.values import Boundary, OutgoingCall, Reply, ToolAnswer
from agentrun.runner.exits import Exit
from agentrun.runner.ready_servers import ReadyServers
from agentrun.runner.toolsets import offers_for

SHELL = {
    "agents": [{"name": "sre", "tools": ["files.*"]}],
    "toolServers": [{"name": "files", "workspace": {}}],
}
NOTHING_KEPT = {**SHELL, "toolServers": [{"name": "files", "workspace": {"persistence": "None"}}]}


def script(*replies: Reply) -> Callable[[int], Reply]:
    return lambda turn: replies[turn]


def offered(made: Stage) -> list[list[str]]:
    return [
        [offer.tool for offer in record.tools]
        for record in made.db.records()
        if isinstance(record, ToolsetOffered)
    ]


def kill_before(made: Stage, point: str) -> None:
    """The next attempt dies when it comes to this point."""

    def aim() -> None:
        made.kill.at = len(made.kill.passed)
        made.kill.acts.pop(point)

    made.kill.acts[point] = aim


async def resumed(made: Stage) -> None:
    made.kill.at = None
    await made.attempt()


def test_an_agent_is_offered_what_its_globs_match_in_a_stable_order() -> None:
    async def scene() -> None:
        spec = make_spec(
            agents=[{"name": "sre", "tools": ["ops.fi*", "ops.look"]}],
            toolServers=[
                {"name": "ops", "url": "http://127.0.0.1:1/mcp"},
                {"name": "unused", "url": "http://127.0.0.1:2/mcp"},
            ],
        )
        made = Stage(spec, script(text("done")))
        made.tools.offers = (tool("look"), tool("drop"), tool("find"), tool("fix"), tool("look"))
        await made.attempt()

        assert offered(made) == [["ops.find", "ops.fix", "ops.look"]]
        assert made.tools.listed == ["ops"], "a server that nobody uses is not connected"

    run(scene())


def test_a_glob_that_matches_nothing_fails_the_run_before_anything_starts() -> None:
    async def scene() -> None:
        spec = make_spec(agents=[{"name": "sre", "tools": ["ops.look", "ops.restrat"]}])
        made = Stage(spec, script(text("done")))
        ending = await made.attempt()

        assert ending.code is Exit.FAILED
        assert made.db.state == "Failed"
        assert made.db.reason == "InvalidSpec"
        assert "'ops.restrat' matches no tool" in made.db.message
        assert not made.model.requests

    run(scene())


def test_a_server_that_is_still_starting_is_waited_for() -> None:
    async def scene() -> None:
        made = Stage(make_spec(), script(text("done")))
        tries = iter([True] * 4)
        made.tools.away = lambda s: ToolServerUnavailable("refused") if next(tries, False) else None
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert made.observer.heard.count("unreachable ops") == 4

    run(scene())


def test_a_server_that_never_answers_suspends_the_run() -> None:
    async def scene() -> None:
        made = Stage(make_spec(), script(text("done")))
        made.tools.away = lambda server: ToolServerUnavailable("refused")
        await made.attempt()

        assert made.db.state == "Suspended"
        assert made.db.reason == "ToolServerUnavailable"

    run(scene())


def test_a_restored_run_asks_the_model_before_its_servers_answer() -> None:
    async def scene() -> None:
        made = Stage(make_spec(), script(asks("look", turn=0), text("done")))
        kill_before(made, "before model")
        await made.attempt()
        made.tools.list_gate = asyncio.Event()
        made.kill.acts["after assistant/message"] = made.tools.list_gate.set
        await resumed(made)

        assert made.db.state == "Succeeded"
        assert len(offered(made)) == 1, "nothing differs, nothing is recorded"

    run(scene())


def test_a_call_waits_until_its_server_was_compared() -> None:
    async def scene() -> None:
        made = Stage(make_spec(), script(asks("look", turn=0), text("done")))
        kill_before(made, "before look")
        await made.attempt()
        made.tools.list_gate = asyncio.Event()
        gate = made.tools.list_gate
        made.later(20, gate.set)
        seen: list[bool] = []
        made.kill.acts["before look"] = lambda: seen.append(gate.is_set())
        await resumed(made)

        assert seen == [True]

    run(scene())


def test_what_a_server_offers_differently_is_a_record_before_the_next_request() -> None:
    async def scene() -> None:
        made = Stage(make_spec(), script(asks("look", turn=0), asks("look", turn=1), text("done")))
        kill_before(made, "before model")
        await made.attempt()
        made.tools.offers = (tool("look"), tool("new"))
        made.model.seconds = 30
        await resumed(made)

        assert offered(made) == [["ops.fix", "ops.look"], ["ops.look", "ops.new"]]
        kinds = made.db.kinds
        assert kinds.index("assistant/message") < kinds.index("toolset/offered", 1), (
            "the request under way was made with the old list"
        )
        names = [[t["name"] for t in body["tools"]] for body in made.model.bodies]
        assert names[0] == ["ops__fix", "ops__look"]
        assert names[1:] == [["ops__look", "ops__new"]] * 2

    run(scene())


def test_a_call_of_a_tool_that_was_withdrawn_is_refused_and_not_sent() -> None:
    async def scene() -> None:
        made = Stage(make_spec(), script(asks("look", turn=0), text("done")))
        kill_before(made, "before look")
        await made.attempt()
        made.tools.offers = (tool("fix"),)
        await resumed(made)

        assert made.db.state == "Succeeded"
        assert not made.tools.requests
        assert "There is no tool" in str(made.db.transcript)

    run(scene())


def test_one_server_that_is_away_does_not_hide_what_another_changed() -> None:
    async def scene() -> None:
        spec = make_spec(
            agents=[{"name": "sre", "tools": ["ops.*", "db.*"]}],
            toolServers=[
                {"name": "ops", "url": "http://127.0.0.1:1/mcp"},
                {"name": "db", "url": "http://127.0.0.1:2/mcp"},
            ],
        )
        made = Stage(spec, script(asks("look", turn=0), asks("look", turn=1), text("done")))
        made.tools.offers = (tool("look"), tool("ask", "db"))
        kill_before(made, "before model")
        await made.attempt()
        made.tools.offers = (tool("look"), tool("more"))
        made.tools.away = lambda s: ToolServerUnavailable("refused") if s == "db" else None
        await resumed(made)

        assert offered(made)[-1] == ["ops.look", "ops.more", "db.ask"]
        assert made.db.state == "Succeeded"

    run(scene())


def test_h4_files_are_back_before_the_first_call_of_the_next_attempt() -> None:
    async def scene() -> None:
        made = Stage(
            make_spec(**SHELL),
            script(
                asks("write", turn=0, server="files"),
                asks("read", turn=1, server="files"),
                text("done"),
            ),
        )
        made.tools.offers = (tool("write", "files"), tool("read", "files"))
        file, contents = change("notes.txt", b"kept")
        made.tools.answer = lambda call: (
            ToolAnswer([], False, 1, (file,), contents) if call.tool == "write" else says("read")
        )
        kill_before(made, "before read")
        await made.attempt()
        await resumed(made)

        assert made.tools.restored == [("files", {}), ("files", {"notes.txt": b"kept"})]
        assert made.tools.order == ["write", "read"]

    run(scene())


@pytest.mark.parametrize(
    "server",
    [{"workspace": {"persistence": "None"}}, {"image": "files:1"}, {"command": ["files"]}],
    ids=lambda server: next(iter(server)),
)
def test_h4_a_server_that_died_with_its_pod_is_a_reset_that_the_model_is_told_about(
    server: dict[str, object],
) -> None:
    async def scene() -> None:
        made = Stage(
            make_spec(**{**SHELL, "toolServers": [{"name": "files", **server}]}),
            script(
                asks("write", turn=0, server="files"),
                asks("read", turn=1, server="files"),
                text("done"),
            ),
        )
        made.tools.offers = (tool("write", "files"), tool("read", "files"))
        kill_before(made, "before read")
        await made.attempt()
        await resumed(made)

        assert made.db.kinds.count("environment/reset") == 1
        assert "was restarted" in str(made.db.transcript[4])
        assert made.tools.restored == []

    run(scene())


def test_a_workspace_that_was_never_used_was_not_reset() -> None:
    async def scene() -> None:
        made = Stage(make_spec(**NOTHING_KEPT), script(text("done")))
        made.tools.offers = (tool("write", "files"),)
        kill_before(made, "before model")
        await made.attempt()
        await resumed(made)

        assert "environment/reset" not in made.db.kinds

    run(scene())


@pytest.mark.parametrize("answered", [True, False])
def test_a_call_under_way_keeps_its_own_answer_when_its_tool_is_withdrawn(
    monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """Refused meanwhile, it would have two results. One that was not sent after all is refused."""

    async def scene() -> None:
        made = Stage(make_spec(), script(asks("look", turn=0), text("done")))
        sent = asyncio.Event()

        def differences(servers: ReadyServers) -> Iterator[Boundary]:
            if sent.is_set() and made.db.kinds.count("toolset/offered") == 1:
                offers = offers_for(made.db.spec, "sre", (tool("fix"),))
                boundary = boundaries.tools_offered(servers._attempt.state, "sre", offers)
                if boundary is not None:
                    yield boundary

        async def withdrawn(call: OutgoingCall) -> None:
            sent.set()
            await asyncio.sleep(20)
            if not answered:
                raise NotSent("not now")

        monkeypatch.setattr(ReadyServers, "differences", differences)
        made.tools.before_send = withdrawn
        await made.attempt()

        (result,) = [r for r in made.db.records() if isinstance(r, ToolResult)]
        assert result.origin == ("server" if answered else "unavailable")
        assert made.db.state == "Succeeded"

    run(scene())


def test_a_server_restarted_within_the_attempt_is_a_reset_as_well() -> None:
    async def scene() -> None:
        made = Stage(make_spec(), script(asks("look", turn=0), asks("fix", turn=1), text("done")))
        made.tools.generations["ops"] = "one"
        made.kill.acts["before fix"] = lambda: made.tools.generations.update(ops="two")
        await made.attempt()

        assert made.observer.heard == ["toolset sre 2", "reset ops"]
        kinds = made.db.kinds
        assert kinds.index("environment/reset") < len(kinds) - kinds[::-1].index("tool/result")
        assert "was restarted" in str(made.db.transcript[4])

    run(scene())
