"""``python -m agentrun.api.crd FOLDER`` writes the CRDs into FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from agentrun.api.crd import render


def main(arguments: list[str]) -> int:
    """Writes the files and returns the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m agentrun.api.crd FOLDER\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in render().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
