"""What cannot be run is refused with a clear message, and nothing is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import agentrun
from tests.cli.runs import PLAIN, PLAIN_SCRIPT

Change = Callable[[dict[str, Any]], None]


def base() -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load(PLAIN)
    return manifest


CASES: dict[str, tuple[Change, str]] = {
    "no mode": (lambda m: m["spec"].pop("prompt"), "exactly one of prompt"),
    "two modes": (lambda m: m["spec"].update(goal="x"), "found prompt and goal"),
    "unknown agent": (lambda m: m["spec"].update(agent="nobody"), "no agent is named nobody"),
    "unknown tool server": (
        lambda m: m["spec"]["agents"][0].update(tools=["ops.*"]),
        "no tool server is named ops",
    ),
    "unknown field": (lambda m: m["spec"].update(promt="x"), "did you mean prompt"),
    "3 MB prompt": (lambda m: m["spec"].update(prompt="x" * 3_000_000), "promptFrom"),
    "name too long": (lambda m: m["metadata"].update(name="x" * 47), "at most 46"),
    "name with a dot": (lambda m: m["metadata"].update(name="a.b"), "no dots"),
    "duplicate names": (
        lambda m: m["spec"].update(agents=m["spec"]["agents"] * 2),
        "used more than once",
    ),
    "invalid schema": (
        lambda m: m["spec"]["agents"][0].update(outputSchema={"type": "nonsense"}),
        "JSON Schema",
    ),
    "cost without a price": (
        lambda m: (m["spec"].pop("pricing"), m["spec"].update(limits={"costUSD": "1"})),
        "price of model",
    ),
    "not yet": (lambda m: m["spec"].update(sessionId="s"), "not available in this release"),
    "a misspelt field of the metadata": (
        lambda m: m["metadata"].update(lables={}),
        "metadata.lables: unknown field; did you mean labels?",
    ),
    "adoption": (lambda m: m["spec"].update(runId="r"), "adoption of a record by runId is not"),
    "another installation's": (
        lambda m: m["spec"].update(controllerName="blue"),
        "spec.controllerName",
    ),
    "wrong kind": (lambda m: m.update(kind="Pod"), "Pod"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_manifest_that_cannot_be_run_is_refused(case: str, tmp_path: Path) -> None:
    change, words = CASES[case]
    manifest = base()
    change(manifest)
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(manifest))
    state = tmp_path / "state"
    done = agentrun("run", str(path), "--state", str(state))
    assert done.code == 1
    assert words in done.err
    assert "run.yaml" in done.err
    assert "Traceback" not in done.err
    assert len(done.err) < 2000
    assert not (state / "postgres").exists(), "nothing was started"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2\n", "duplicate key"),
        ("a: [", "run.yaml:"),
        ("- 1\n", "a manifest is an object"),
        ("", "no manifest"),
        ("\x00", "run.yaml"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    done = agentrun("run", str(path), "--state", str(tmp_path / "state"))
    assert done.code == 1
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_file_that_is_no_script_is_refused_before_anything_is_applied(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(PLAIN)
    (tmp_path / "model.yaml").write_text("hello\n")
    state = tmp_path / "state"
    done = agentrun(
        "run",
        str(tmp_path / "run.yaml"),
        "--model-script",
        str(tmp_path / "model.yaml"),
        "--state",
        str(state),
    )
    assert done.code == 1
    assert "model script" in done.err
    assert not state.exists()


def test_a_bad_second_run_keeps_the_first_from_being_applied(tmp_path: Path) -> None:
    bad = base()
    bad["metadata"]["name"] = "second"
    bad["spec"]["promt"] = "x"
    path, state = tmp_path / "run.yaml", tmp_path / "state"
    path.write_text(yaml.safe_dump_all([base(), bad]))
    done = agentrun("run", str(path), "--state", str(state))
    assert done.code == 1
    assert "run.yaml#2" in done.err
    assert "did you mean prompt" in done.err
    assert agentrun("get", "-o", "name", "--state", str(state)).out == ""


def test_two_runs_of_one_name_in_a_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump_all([base(), base()]))
    done = agentrun("run", str(path), "--state", str(tmp_path / "state"))
    assert done.code == 1
    assert "2 manifests of AgentRun have the name plain" in done.err


def test_runs_of_two_namespaces_in_a_file_are_refused_not_lost(tmp_path: Path) -> None:
    other = base()
    other["metadata"] = {"name": "second", "namespace": "other"}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump_all([base(), other]))
    done = agentrun("run", str(path), "--state", str(tmp_path / "state"))
    assert done.code == 1
    assert "several namespaces" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model-log", "x.jsonl"), "--model-script, which is not given"),
        (("--no-wait", "--model-script", "x.yaml"), "does nothing with --no-wait"),
        (("--context", "prod"), "option of kubectl-agentrun"),
        (("--kubeconfig", "x"), "option of kubectl-agentrun"),
        (("-n", "elsewhere"), "but --namespace is elsewhere"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(
    options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    manifest = base()
    manifest["metadata"]["namespace"] = "here"
    path, state = tmp_path / "run.yaml", tmp_path / "state"
    path.write_text(yaml.safe_dump(manifest))
    done = agentrun("run", str(path), *options, "--state", str(state))
    assert done.code in (1, 2)
    assert words in done.err
    assert not state.exists()


def test_a_state_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(PLAIN)
    done = agentrun("run", str(path), "--state", "/proc/none")
    assert done.code == 1
    assert "/proc/none" in done.err
    assert "--state" in done.err
    assert "Traceback" not in done.err


def test_without_a_key_nothing_is_started_and_the_run_can_still_be_done(tmp_path: Path) -> None:
    path, script, state = tmp_path / "run.yaml", tmp_path / "model.yaml", tmp_path / "state"
    path.write_text(PLAIN)
    script.write_text(PLAIN_SCRIPT)
    place = (str(path), "--state", str(state))
    done = agentrun("run", *place, ANTHROPIC_API_KEY="", AGENTRUN_MODEL_URL="")
    assert done.code == 1
    assert "ANTHROPIC_API_KEY" in done.err
    assert "--model-script" in done.err
    assert not (state / "postgres").exists()
    assert agentrun("run", *place, "--model-script", str(script)).code == 0


def test_fields_that_local_mode_does_not_use_are_named(tmp_path: Path) -> None:
    manifest = base()
    manifest["spec"]["pod"] = {"nodeSelector": {"a": "b"}, "priorityClassName": "high"}
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(manifest))
    done = agentrun("run", str(path), "--state", str(tmp_path / "state"), "--no-wait")
    assert done.code == 0
    assert "does not use spec.pod.nodeSelector, spec.pod.priorityClassName" in done.err


def test_an_unreachable_database_is_named_and_nothing_is_applied(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(PLAIN)
    state = tmp_path / "state"
    done = agentrun(
        "run",
        str(tmp_path / "run.yaml"),
        "--dsn",
        "postgresql://127.0.0.1:1/x",
        "--state",
        str(state),
    )
    assert done.code == 1
    assert "database" in done.err
    assert "--dsn" in done.err
    assert "tried again" not in done.err
    assert not state.exists()


def test_a_missing_secret_is_named_and_costs_no_attempt(tmp_path: Path) -> None:
    manifest = base()
    manifest["spec"]["model"]["apiKeySecretRef"] = {"name": "nowhere", "key": "k"}
    manifest["spec"]["limits"] = {"startDeadlineSeconds": 3}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(manifest))
    done = agentrun("run", str(tmp_path / "run.yaml"), "--state", str(tmp_path / "state"))
    assert done.code == 1
    assert "reason=ContainerConfig" in done.err
    assert "nowhere" in done.err
    assert "attempt=2" not in done.err


def test_a_glob_that_matches_no_offered_tool_fails_the_run_before_the_model_is_asked(
    tmp_path: Path,
) -> None:
    manifest = base()
    manifest["spec"]["agents"][0]["tools"] = ["workspace.nothing*"]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(manifest))
    (tmp_path / "model.yaml").write_text(PLAIN_SCRIPT)
    log = tmp_path / "model.jsonl"
    done = agentrun(
        *("run", str(tmp_path / "run.yaml"), "--model-script", str(tmp_path / "model.yaml")),
        *("--model-log", str(log), "--state", str(tmp_path / "state")),
    )
    assert done.code == 1
    assert "workspace.nothing*" in done.err
    assert "InvalidSpec" in done.err
    assert not log.exists() or log.read_text() == ""
