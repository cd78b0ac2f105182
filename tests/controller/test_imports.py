"""What the controller's decisions may import: nothing with a clock, an effect or an await."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import agentrun.controller

ROOM = Path(agentrun.controller.__file__).parent
IMPURE = {"asyncio", "time", "random", "os", "socket", "threading", "subprocess", "kopf", "secrets"}
PURE = {
    *(f"plan/{path.name}" for path in (ROOM / "plan").glob("*.py")),
    "actions.py",
    "attempts.py",
    "conditions.py",
    "events.py",
    "history.py",
    "approval_object.py",
    "status.py",
    "summary.py",
    "world.py",
}


def imports(path: Path) -> set[str]:
    """Top-level names of the packages that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("name", sorted(PURE))
def test_decisions_know_no_clock_and_no_io(name: str) -> None:
    assert not imports(ROOM / name) & IMPURE


def test_decisions_are_synchronous() -> None:
    for name in PURE:
        tree = ast.parse((ROOM / name).read_text())
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.AsyncFunctionDef | ast.Await)]
