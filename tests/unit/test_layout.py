"""The shape of the source tree: modules that can be read, and a folder that shadows nothing."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "operator"


def test_modules_stay_small() -> None:
    lengths = [len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")]
    assert statistics.median(lengths) <= 150
    assert max(lengths) <= 400


def test_the_source_root_shadows_no_standard_module() -> None:
    """It is called ``operator``, as a module of the standard library is."""
    assert [path.name for path in SOURCE.iterdir() if path.name != "agentrun"] == []
    code = "import operator; assert operator.add(1, 1) == 2; print(operator.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not Path(found.stdout.strip()).is_relative_to(ROOT / "operator")


def test_the_images_lock_has_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {re.split(r"[\[><=]", line)[0].lower() for line in project["dependencies"]}
    lock = (ROOT / "requirements.lock").read_text()
    locked = set(re.findall(r"^([a-z0-9.-]+)==", lock, re.MULTILINE))
    assert named <= locked
