"""Every hazard that code or tests refer to is described in docs/hazards.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DESCRIBED = set(re.findall(r"^- H(\d+) ", (ROOT / "docs/hazards.md").read_text(), re.MULTILINE))


def test_hazards_that_are_referred_to_are_described() -> None:
    folders = ("operator", "charts", "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    texts = [path.read_text() for path in files if path.suffix in {".py", ".sql", ".yaml"}]
    referred = set(re.findall(r"(?:\bH|_h)([1-9][0-9]?)(?=\b|_)", "\n".join(texts)))
    assert referred
    assert referred <= DESCRIBED
