"""Globs on tools."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrun.api.globs import matches, matches_server

parts = st.text(alphabet="ab.-", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("glob", "server", "tool", "covered"),
    [
        ("ops.*", "ops", "restart", True),
        ("ops.restart*", "ops", "restart_pod", True),
        ("ops.restart?", "ops", "restart", False),
        ("*.read", "files", "read", True),
        ("*.read", "files", "read.all", False),
        ("ops.*", "ops2", "restart", False),
        ("o*.x", "ops", "x", True),
        ("ops.a.*", "ops", "a.b", True),
        ("ops.[ab]", "ops", "a", False),
        ("ops.[ab]", "ops", "[ab]", True),
    ],
)
def test_a_glob_covers_server_and_tool_part_by_part(
    glob: str, server: str, tool: str, covered: bool
) -> None:
    assert matches(glob, server, tool) is covered


@settings(deadline=None)
@given(
    st.text(alphabet="ab*?-", min_size=1, max_size=6),
    st.text(alphabet="ab*?.-", max_size=8),
    st.text(alphabet="ab-", min_size=1, max_size=6),
    parts,
)
def test_both_halves_match_as_a_shell_would(left: str, right: str, server: str, tool: str) -> None:
    assert matches(f"{left}.{right}", server, tool) is (shell(left, server) and shell(right, tool))


def shell(glob: str, name: str) -> bool:
    """The definition itself, slow and plain."""
    if not glob:
        return not name
    if glob[0] == "*":
        return any(shell(glob[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and glob[0] in ("?", name[0]) and shell(glob[1:], name[1:])


def test_a_glob_reaches_only_servers_that_are_there() -> None:
    assert matches_server("ops.x", ["db", "ops"])
    assert matches_server("*.x", ["db"])
    assert not matches_server("*.x", [])
    assert not matches_server("op.x", ["ops"])


def test_a_glob_of_many_stars_is_decided_at_once() -> None:
    """A backtracking matcher would work on this for longer than the suite lives."""
    assert not matches("ops." + "*a" * 30, "ops", "a" * 29 + "b" * 30)
    assert matches("ops." + "*a" * 30, "ops", "ba" * 30)


@pytest.mark.parametrize("part", ["[a]", "[!a]", "a]b", "\\d", "a.b", "(a)", "^a$", "{1}"])
def test_only_stars_and_question_marks_are_special(part: str) -> None:
    assert matches(f"ops.{part}", "ops", part)
    assert not matches(f"ops.{part}", "ops", "a" if part != "a" else "b")
