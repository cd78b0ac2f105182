"""Words as people who use kubectl type them: durations with a unit, names with their kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
KINDS = ("agentrun", "agentruns", "arun", "run", "runs", "approval", "approvals", "appr")


class Duration(click.ParamType[float]):
    """Seconds, given as 30, 30s, 10m, 1h or 1h30m."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The seconds; click's usage error otherwise."""
        if isinstance(value, (int, float)):
            return float(value)
        if not re.fullmatch(r"(\d+(\.\d+)?|(\d+h)?(\d+m)?(\d+(\.\d+)?s)?)", value) or not value:
            self.fail(f"{value!r} is no duration: 30, 30s, 10m, 1h", param, ctx)
        parts = re.findall(r"([\d.]+)([hms]?)", value)
        return sum(float(number) * UNITS[unit] for number, unit in parts)


def bare(name: str) -> str:
    """A name without its kind, as ``-o name`` prints both. A file of that name stays what it is."""
    kind, slash, rest = name.partition("/")
    known = kind.lower().removesuffix(".agentrun.dev") in KINDS
    return rest if slash and known and not Path(name).exists() else name
