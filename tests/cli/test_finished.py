"""Verbs on a run that has ended."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
import yaml
from tests.cli.conftest import Shell, agentrun

from agentrun.cli.record import _lines
from agentrun.run.transcript import Entry


def test_run_reports_progress_and_ends_with_zero(finished: Shell) -> None:
    assert "agentrun/plain created" in finished.first.err
    assert "phase=Succeeded" in finished.first.err


def test_get_lists_runs_as_kubectl_would(finished: Shell) -> None:
    header, row = finished("get", "runs").out.splitlines()
    assert header.split() == [
        "NAME",
        "PHASE",
        "REASON",
        "ATTEMPT",
        "TURNS",
        "TOKENS",
        "COST",
        "AGE",
    ]
    assert row.split()[:6] == ["plain", "Succeeded", "Succeeded", "1", "3", "630"]
    assert row.split()[6] == "0.00225"


def test_json_is_a_list_of_the_objects_as_the_api_returns_them(finished: Shell) -> None:
    listing = json.loads(finished("get", "-o", "json").out)
    assert listing["kind"] == "List"
    (run,) = listing["items"]
    assert run["apiVersion"] == "agentrun.dev/v1alpha1"
    assert run["status"]["phase"] == "Succeeded"
    assert (
        yaml.safe_load(finished("get", "-o", "yaml").out)["items"][0]["metadata"] == run["metadata"]
    )
    assert json.loads(finished("get", "run", "plain", "-o", "json").out) == run


def test_describe_shows_attempts_and_events(finished: Shell) -> None:
    out = finished("describe", "plain").out
    assert "Phase:      Succeeded" in out
    assert "plain-" in out
    assert "Started" in out


def test_transcript_tells_the_conversation_and_cannot_move_the_cursor(finished: Shell) -> None:
    out = finished("transcript", "plain").out
    assert "Write a file and read it." in out
    assert "workspace.write_file" in out
    assert "It says hello." in out
    assert "\x1b" not in out
    lines = [
        json.loads(line)
        for line in finished("transcript", "plain", "--format", "json").out.splitlines()
    ]
    assert [line["who"] for line in lines if line["who"] != "run"] == [
        "user",
        "assistant",
        "call",
        "result",
        "call",
        "result",
        "assistant",
    ]


def test_result_is_the_whole_answer(finished: Shell) -> None:
    assert finished("result", "plain").out == "It says hello.\n"
    missing = finished("result", "plain", "--task", "nope")
    assert missing.code == 1
    assert "no result" in missing.err


def test_verify_reads_the_record_and_the_exported_file(finished: Shell, tmp_path: Path) -> None:
    assert finished("verify", "plain").code == 0
    exported = tmp_path / "plain.json"
    assert finished("export", "plain", "--file", str(exported)).code == 0
    report = agentrun("verify", str(exported), "-o", "json")
    assert report.code == 0
    assert json.loads(report.out)["requests"] == 3
    document = json.loads(exported.read_text())
    document["commits"][3]["chain"] = "00" * 32
    exported.write_text(json.dumps(document))
    assert agentrun("verify", str(exported)).code == 1
    document["commits"] = []
    exported.write_text(json.dumps(document))
    assert agentrun("verify", str(exported)).code == 4


def test_json_has_only_what_an_api_server_would_return(finished: Shell) -> None:
    run = json.loads(finished("get", "run", "plain", "-o", "json").out)
    assert "controllerName" not in run["spec"]
    assert "generateName" not in run["metadata"]
    assert "tasks" not in run["spec"]
    assert run["spec"]["limits"]["retries"] == 6
    assert run["spec"]["pod"] == {"terminationGracePeriodSeconds": 30}


def test_an_export_up_to_a_commit_is_a_record_of_its_own(finished: Shell, tmp_path: Path) -> None:
    exported = tmp_path / "early.json"
    assert finished("export", "plain", "--seq", "8", "--file", str(exported)).code == 0
    assert len(json.loads(exported.read_text())["commits"]) == 8
    assert agentrun("verify", str(exported)).code == 0
    late = finished("export", "plain", "--seq", "99")
    assert late.code == 1
    assert "12 commits" in late.err


@pytest.mark.parametrize(
    "words",
    [
        ("retry", "plain"),
        ("fork", "plain", "--seq", "3", "--name", "other"),
        ("erase", "plain"),
        ("import", "plain.json"),
        ("export", "plain", "--format", "elsai"),
    ],
)
def test_what_comes_later_says_so(finished: Shell, words: tuple[str, ...]) -> None:
    done = agentrun(*words) if words[0] != "export" else finished(*words)
    assert done.code == 1
    assert "not available in this release" in done.err


def test_a_place_that_cannot_be_written_is_named(finished: Shell) -> None:
    done = finished("export", "plain", "--file", "/proc/none/x")
    assert done.code == 1
    assert "/proc/none/x" in done.err
    assert "Traceback" not in done.err


def test_a_database_that_does_not_answer_is_named_once(finished: Shell) -> None:
    done = finished("verify", "plain", "--dsn", "postgresql://127.0.0.1:1/x")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "open the database" in done.err


def test_another_namespace_of_the_folder_is_empty(finished: Shell) -> None:
    assert finished("get", "-n", "other", "-o", "name").out == ""
    assert finished("get", "-n", "default", "-o", "name").out == "agentrun/plain\n"


def test_wait_ends_at_once_for_what_is_reached(finished: Shell) -> None:
    assert finished("wait", "plain").code == 0
    assert finished("wait", "plain", "--for", "condition=Succeeded").code == 0
    assert finished("wait", "plain", "--for", "condition=succeeded").code == 0
    never = finished("wait", "plain", "--for", "condition=Stalled")
    assert never.code == 1
    assert "go on with" not in never.err


@pytest.mark.parametrize("name", ["agentrun/plain", "run/plain", "agentruns.agentrun.dev/plain"])
def test_a_name_may_have_its_kind_as_kubectl_prints_it(finished: Shell, name: str) -> None:
    assert finished("result", name).out == "It says hello.\n"


@pytest.mark.parametrize("timeout", ["30", "30s", "2m", "1h30m", "0.5"])
def test_a_timeout_may_have_a_unit(finished: Shell, timeout: str) -> None:
    assert finished("wait", "plain", "--timeout", timeout).code == 0


@pytest.mark.parametrize("timeout", ["", "soon", "5x", "m"])
def test_a_timeout_that_is_none_is_refused(finished: Shell, timeout: str) -> None:
    done = finished("wait", "plain", "--timeout", timeout)
    assert done.code == 2
    assert "no duration" in done.err


def test_times_are_short(finished: Shell) -> None:
    assert re.search(r"  20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ  ", finished("describe", "plain").out)


def test_waiting_for_what_there_is_not_is_refused_at_once(finished: Shell) -> None:
    done = finished("wait", "plain", "--for", "condition=Done")
    assert done.code == 1
    assert "neither a condition nor a phase" in done.err
    assert "Finished" in done.err


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_what_changes_nothing_says_so(finished: Shell, verb: str) -> None:
    done = finished(verb, "plain")
    assert done.code == 0
    assert "it has ended (Succeeded), so nothing changes" in done.out


def test_a_tool_name_that_the_model_made_up_cannot_move_the_cursor() -> None:
    entry = Entry(1, 1, "call", "{}", "evil\x1b[31m")
    for form in ("text", "md", "json"):
        assert "\x1b" not in "".join(_lines([entry], form))


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_there_is_not_is_refused(finished: Shell, port: str) -> None:
    script = str(finished.state.parent / "model.yaml")
    done = agentrun("dev", "model", script, "--port", port)
    assert done.code == 2
    assert "Traceback" not in done.err


def test_a_port_that_is_taken_is_named(finished: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = agentrun("dev", "model", str(finished.state.parent / "model.yaml"), "--port", port)
    assert done.code == 1
    assert f"listen (127.0.0.1:{port})" in done.err


def test_a_database_to_migrate_that_does_not_answer_is_not_said_to_be_tried_again() -> None:
    done = agentrun("migrate", "--dsn", "postgresql://127.0.0.1:1/x")
    assert done.code == 1
    assert "tried again" not in done.err
    assert "--dsn" in done.err


def test_killing_what_does_not_run_says_where_to_look(finished: Shell) -> None:
    done = finished("kill", "plain")
    assert done.code == 1
    assert "agentrun describe" in done.err


def test_logs_are_json_lines_without_prompts(finished: Shell) -> None:
    out = finished("logs", "plain").out
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert lines
    assert "Write a file and read it." not in out
    assert "It says hello." not in out


def test_events_tell_the_life_of_the_run(finished: Shell) -> None:
    assert "Succeeded" in finished("events", "plain").out


@pytest.mark.parametrize(
    "verb",
    ["describe", "logs", "events", "transcript", "result", "suspend", "cancel", "kill", "delete"],
)
def test_an_unknown_run_is_named(finished: Shell, verb: str) -> None:
    done = finished(verb, "nobody")
    assert done.code == 1
    assert "nobody" in done.err
    assert "Traceback" not in done.err


def test_the_scripted_model_comes_back_where_a_surviving_runner_looks_for_it(
    finished: Shell,
) -> None:
    port = (finished.state / "model.port").read_text()
    script = finished.state.parent / "model.yaml"
    run = finished.state.parent / "run.yaml"
    assert finished("run", str(run), "--model-script", str(script)).code == 0
    assert (finished.state / "model.port").read_text() == port


def test_the_same_command_again_does_nothing_twice(finished: Shell) -> None:
    again = finished(
        "run",
        str(finished.state.parent / "run.yaml"),
        "--model-script",
        str(finished.state.parent / "model.yaml"),
    )
    assert again.code == 0
    assert "unchanged" in again.err
    assert len(json.loads(finished("get", "-o", "json").out)["items"]) == 1


def test_reading_makes_no_state_folder(tmp_path: Path) -> None:
    done = agentrun("get", "--state", str(tmp_path / "none"))
    assert done.code == 1
    assert "agentrun run FILE" in done.err
    assert not (tmp_path / "none").exists()
