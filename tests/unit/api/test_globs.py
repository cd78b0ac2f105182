"""Globs on tools."""

from __future__ import annotations

from fnmatch import fnmatchcase

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
def test_matching(glob: str, server: str, tool: str, covered: bool) -> None:
    assert matches(glob, server, tool) is covered


@settings(deadline=None)
@given(
    st.text(alphabet="ab*?-", min_size=1, max_size=6),
    st.text(alphabet="ab*?.-", max_size=8),
    st.text(alphabet="ab-", min_size=1, max_size=6),
    parts,
)
def test_both_halves_match_as_a_shell_would(left: str, right: str, server: str, tool: str) -> None:
    expected = fnmatchcase(server, left) and fnmatchcase(tool, right)
    assert matches(f"{left}.{right}", server, tool) is expected


def test_server_part() -> None:
    assert matches_server("ops.x", ["db", "ops"])
    assert matches_server("*.x", ["db"])
    assert not matches_server("*.x", [])
    assert not matches_server("op.x", ["ops"])
