"""Runs that wait for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from tests.cli.conftest import Ran, Shell, started
from tests.cli.runs import PLAIN, PLAIN_SCRIPT

from agentrun.api import AgentRun, Approval
from agentrun.cli.hints import ResumeCommand, say_what_to_do
from agentrun.cli.run import _gone_well, _verdict
from agentrun.cli.where import Where
from agentrun.cluster.port import UserCluster
from agentrun.cluster.values import EventView, ObjectKey

Waiting = tuple[Shell, Callable[[], Ran]]


def approval_of(shell: Shell) -> dict:
    (approval,) = json.loads(shell("get", "approvals", "-o", "json").out)["items"]
    return approval


def test_run_ends_with_three_and_says_what_to_do(waiting: Waiting) -> None:
    shell, _ = waiting
    assert shell.first.code == 3
    name = approval_of(shell)["metadata"]["name"]
    assert f"agentrun approve {name} --state {shell.state}" in shell.first.out
    going_on = shell.first.err.splitlines()[-1]
    assert going_on.startswith("then go on with: agentrun run ")
    assert f"--state {shell.state}" in going_on
    assert "--model-script" in going_on
    assert "workspace.delete_file" in shell.first.out
    assert "a.txt" in shell.first.out


def test_a_long_question_does_not_push_the_commands_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    content = {"tool": "ops.put", "argumentsJSON": "x" * 200_000, "truncated": True}
    asked = Approval.model_validate(
        {
            "metadata": {"name": "long-apr-1"},
            "spec": {
                "runRef": {"name": "long", "uid": "u"},
                "scope": "Tool",
                "boundary": "main/1/1/0",
                "contentHash": "0" * 64,
                "content": content,
            },
        }
    )
    run = AgentRun.model_validate({"metadata": {"name": "long"}, "spec": {"prompt": "p"}})
    say_what_to_do([run], [asked], ResumeCommand(Where()))
    out = capsys.readouterr().out
    assert len(out) < 3000
    assert "198000 more characters; read them with: agentrun get approval long-apr-1" in out
    assert "longer than an Approval can hold" in out
    assert "agentrun approve long-apr-1" in out


def test_approved_it_goes_on_where_it_was(waiting: Waiting) -> None:
    shell, go_on = waiting
    approval = approval_of(shell)
    assert approval["spec"]["reason"] == "deleting is for ever"
    assert shell("approve", approval["metadata"]["name"]).code == 0
    assert go_on().code == 0
    assert shell("result", "gated").out == "It is gone.\n"
    run = json.loads(shell("get", "run", "gated", "-o", "json").out)
    assert run["status"]["attempt"] == 2
    assert approval_of(shell)["spec"]["decidedBy"]


def test_denied_the_model_is_told(waiting: Waiting) -> None:
    shell, go_on = waiting
    assert shell("deny", approval_of(shell)["metadata"]["name"], "--reason", "keep it").code == 0
    assert go_on().code == 0
    assert shell("result", "gated").out == "I was not allowed to.\n"
    assert "keep it" in shell("transcript", "gated").out


def test_whoever_decides_while_nothing_runs_is_told_how_it_goes_on(waiting: Waiting) -> None:
    shell, _ = waiting
    name = approval_of(shell)["metadata"]["name"]
    assert f"agentrun run --state {shell.state}" in shell("approve", name).err
    assert f"agentrun run --state {shell.state}" in shell("wait", "gated", "--timeout", "0.1").err


def test_resuming_what_waits_for_a_decision_says_what_it_waits_for(waiting: Waiting) -> None:
    shell, _ = waiting
    assert "it waits still: ApprovalPending" in shell("resume", "gated").err


def test_without_files_every_unfinished_run_of_the_folder_goes_on(waiting: Waiting) -> None:
    shell, _ = waiting
    script = ("--model-script", str(shell.state.parent / "model.yaml"))
    assert shell("approve", approval_of(shell)["metadata"]["name"]).code == 0
    assert shell("run", *script).code == 0
    assert shell("result", "gated").out == "It is gone.\n"
    again = shell("run", *script)
    assert again.code == 1
    assert "every run has ended" in again.err


def test_a_run_named_where_an_approval_is_wanted_is_told_where_to_look(waiting: Waiting) -> None:
    shell, _ = waiting
    done = shell("approve", "gated")
    assert done.code == 1
    assert "agentrun get approvals" in done.err


def test_a_second_decision_is_refused(waiting: Waiting) -> None:
    shell, _ = waiting
    name = approval_of(shell)["metadata"]["name"]
    assert shell("approve", name).code == 0
    again = shell("deny", name)
    assert again.code == 1
    assert "Traceback" not in again.err


def test_cancelled_while_waiting_it_ends(waiting: Waiting) -> None:
    shell, go_on = waiting
    assert shell("cancel", "gated").code == 0
    assert go_on().code == 1
    run = json.loads(shell("get", "run", "gated", "-o", "json").out)
    assert run["status"]["phase"] == "Cancelled"


def test_deleted_while_waiting_it_is_gone(waiting: Waiting) -> None:
    shell, _ = waiting
    assert shell("delete", "gated").code == 0
    assert json.loads(shell("get", "-o", "json").out)["items"] == []


def test_a_run_that_its_manifest_suspends_goes_on_without_it(tmp_path: Path) -> None:
    """The manifest applied again would suspend it again."""
    shell = started(tmp_path, PLAIN.replace("prompt:", "suspend: true\n  prompt:"), PLAIN_SCRIPT)
    assert shell.first.code == 3
    assert f"agentrun resume plain --state {shell.state}" in shell.first.out
    assert "run.yaml" not in shell.first.err.splitlines()[-1]
    assert shell("resume", "plain").code == 0
    assert shell("run", "--model-script", str(tmp_path / "model.yaml")).code == 0


class Told:
    """A folder in which nothing but Events is left."""

    def __init__(self, **reasons: str) -> None:
        self._reasons = reasons

    async def events(self, name: str) -> list[EventView]:
        run = ObjectKey("default", name)
        return [EventView(run, "Normal", self._reasons[name], "", "", None)]


async def test_a_run_that_succeeded_and_was_deleted_by_its_time_to_live_has_succeeded() -> None:
    objects = cast("UserCluster", Told(done="Succeeded", stopped="Started"))
    gone = await _gone_well(objects, ["done", "stopped"], [])
    assert gone == {"done"}
    assert _verdict([], ["done"], {"done"}) == 0
    assert _verdict([], ["done", "stopped"], {"done"}) == 1


def test_the_events_of_a_deleted_run_can_still_be_read(waiting: Waiting) -> None:
    shell, _ = waiting
    assert shell("delete", "gated").code == 0
    assert "ApprovalRequested" in shell("events", "gated").out
    assert shell("events", "nobody").code == 1
