"""Every command of the README is run, here or by the cluster suite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.chart.render import render

from agentrun.api.validation import validate_manifest
from agentrun.devmodel.parse import parse_script

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = [
    [line.strip() for line in block.splitlines() if line.strip()]
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
]
COMMANDS = [line for block in BLOCKS for line in block]


def here(tmp_path: Path) -> dict[str, str]:
    """An environment in which ``agentrun`` and ``python`` are this project's."""
    (tmp_path / "bin").mkdir()
    for name in ("agentrun", "python", "python3"):
        script = f'#!/bin/sh\nexec {sys.executable} {"-m agentrun.cli" if name == "agentrun" else ""} "$@"\n'
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def test_make_demo_shows_a_killed_run_that_finishes(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    done = subprocess.run(
        ["bash", str(tmp_path / "examples/demo/demo.sh")],
        env=here(tmp_path),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "attempt 2 continued from attempt 1" in done.stdout
    assert "All three entries are booked" in done.stdout
    assert "demo: ok" in done.stdout
    assert done.stdout.count('"account": "travel"') == 3


def test_the_local_commands_work_as_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environ = here(tmp_path)
    (block,) = [block for block in BLOCKS if any("agentrun run" in line for line in block)]
    for line in block:
        if not line.startswith("pip "):
            subprocess.run(line, shell=True, cwd=tmp_path, env=environ, timeout=240, check=True)


@pytest.mark.parametrize("line", sorted(set(re.findall(r"make (?:-s )?[a-z-]+", README))))
def test_make_targets_exist(line: str) -> None:
    done = subprocess.run(
        ["make", "-n", line.rsplit(maxsplit=1)[-1]], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_helm_values_of_the_readme_are_values_of_the_chart() -> None:
    (line,) = [line for line in COMMANDS if line.startswith("helm install agentrun ")]
    values: dict[str, dict[str, str]] = {}
    for path, value in re.findall(r"--set (\S+?)=(\S+)", line):
        section, key = path.split(".")
        values.setdefault(section, {})[key] = value
    (deployment,) = [item for item in render("agentrun", values) if item["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "agentrun:dev"
    assert deployment["metadata"]["name"] == "agentrun-operator"


def test_secret_keys_of_the_readme_are_those_the_chart_reads() -> None:
    (line,) = [line for line in COMMANDS if "generic agentrun-database" in line]
    (deployment,) = [item for item in render("agentrun") if item["kind"] == "Deployment"]
    (operator,) = deployment["spec"]["template"]["spec"]["containers"]
    sources = [env["valueFrom"] for env in operator["env"] if "valueFrom" in env]
    read = {source["secretKeyRef"]["key"] for source in sources if "secretKeyRef" in source}
    assert set(re.findall(r"--from-literal=(\w+)=", line)) == read


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").rglob("run*.yaml")), ids=lambda path: path.parent.name
)
def test_examples_are_valid(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        validate_manifest(document, local=path.parent.name != "cluster")


def test_the_scripted_model_of_the_cluster_plays_the_examples() -> None:
    folder = ROOT / "examples/cluster"
    config, pod, service = yaml.safe_load_all((folder / "model.yaml").read_text())
    parse_script(yaml.safe_load(config["data"]["model.yaml"]))
    assert config["metadata"]["name"] == pod["spec"]["volumes"][0]["configMap"]["name"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    address = f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    for name in ("run.yaml", "run-gated.yaml"):
        text = (folder / name).read_text()
        assert f"    # baseURL: {address}" in text
        run = yaml.safe_load(text.replace("# baseURL", "baseURL"))
        assert validate_manifest(run).spec.model.base_url == address


def test_plain_manifests_are_for_those_without_helm() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chart.render", "localhost:5000/agentrun:dev"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    items = [item for item in yaml.safe_load_all(done.stdout) if item]
    assert [item["kind"] for item in items].count("CustomResourceDefinition") == 2
    assert "image: localhost:5000/agentrun:dev" in done.stdout


def test_files_that_the_readme_names_are_there() -> None:
    for name in re.findall(r"(?:examples|charts|docs)/[\w./-]+\w", README):
        assert (ROOT / name).exists(), name
