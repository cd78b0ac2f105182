"""The limits of the design, beside what was measured. Only those that these workloads measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from bench.stats import Json

TRIPS, GROWTH, RATIO = 1.0, 1.3, 1.8
SNAPSHOTS = 1.5
QUERIES = 3
RESTORE_MS = {"1000": 30.0, "20000": 500.0}


@dataclass(frozen=True, slots=True)
class Target:
    """``value`` must not be above ``limit``."""

    what: str
    limit: float
    value: float

    def told(self) -> Json:
        """For the report."""
        return {**asdict(self), "met": self.value <= self.limit}


def targets(results: Json) -> list[Json]:
    """Every limit, in the order of the design."""
    return [target.told() for target in _targets(results)]


def _targets(results: Json) -> Iterator[Target]:
    boundary, wal, restore = results["boundary"], results["wal"], results["restore"]
    for turns in _lengths(boundary):
        yield Target(
            f"boundary at {turns} turns, whole: p50 ÷ bare INSERT", RATIO, boundary[turns]["ratio"]
        )
    for turns in _lengths(boundary):
        what = f"boundary at {turns} turns, statement alone: p50 ÷ bare INSERT"
        yield Target(what, RATIO, boundary[turns]["statement_ratio"])
    yield Target("round trips per boundary", TRIPS, results["round_trips"])
    first, last = boundary["growth"]["turns"]
    growth = boundary["growth"]["append"]
    yield Target(f"mean at {last} turns ÷ mean at {first} turns", GROWTH, growth)
    for turns in _lengths(wal):
        what = f"WAL bytes per boundary at {turns} turns"
        yield Target(what, wal[turns]["limit_bytes"], wal[turns]["append_bytes"])
    longest = _lengths(restore)[-1]
    share = restore[longest]["snapshot_share"]
    yield Target(f"all snapshots ÷ stored commits at {longest} commits", SNAPSHOTS, share)
    yield Target("queries per restore", QUERIES, max(restore[n]["queries"] for n in restore))
    for commits, limit in RESTORE_MS.items():
        if commits in restore:
            what = f"restore of {commits} commits, with its snapshots, ms"
            yield Target(what, limit, restore[commits]["with_snapshot_ms"])


def _lengths(part: Json) -> list[str]:
    return sorted((name for name in part if name.isdigit()), key=int)
