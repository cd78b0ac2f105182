"""The beginning of the result, for the status."""

from __future__ import annotations

from agentrun.api.status import RESULT_MAX
from agentrun.run.boundaries.settle import PREVIEW
from agentrun.run.display import shown


def test_a_cut_preview_says_so_within_what_the_status_holds() -> None:
    text = shown("x" * 5000, PREVIEW)[:RESULT_MAX]
    assert text.endswith("x…")
    assert len(text) == RESULT_MAX
