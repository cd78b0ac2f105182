"""What docs/architecture.md says exists is there, and what configures the operator is in it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from agentrun.cli import operator

PAGE = (Path(__file__).resolve().parents[2] / "docs/architecture.md").read_text()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`run\.(\w+\.\w+)\(", PAGE))))
def test_functions_of_the_page_are_there(name: str) -> None:
    module, function = name.split(".")
    assert callable(getattr(importlib.import_module(f"agentrun.run.{module}"), function))


def test_the_operators_environment_is_documented() -> None:
    (section,) = re.findall(
        r"## What configures the operator\n(.*?)\nCommand lines", PAGE, re.DOTALL
    )
    read = set(re.findall(r'"(AGENTRUN_[A-Z_]+)"', Path(operator.__file__).read_text()))
    assert set(re.findall(r"`(AGENTRUN_[A-Z_]+)`", section)) == read
