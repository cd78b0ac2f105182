"""The results as tables that can be read in a terminal and pasted into a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bench.stats import Json

Row = Sequence[object]


def tables(results: Json) -> str:
    """All of it."""
    parts = (
        _machine(results["machine"], results["noise"]),
        "## Boundary commit of one run, ms\n\n" + _boundary(results["boundary"]),
        "## WAL per boundary, bytes\n\n" + _wal(results["wal"]),
        "## First boundary on a new connection, ms\n\n" + _fresh(results["fresh"]),
        "## Runs at once\n\n" + _parallel(results["parallel"]),
        "## Restore, ms\n\n" + _restore(results["restore"]),
        "## Peers, ms per step\n\n" + _peers(results["peers"]),
        "## Targets\n\n" + _targets(results["targets"]),
    )
    return "\n\n".join(parts)


def _machine(machine: Json, noise: Json) -> str:
    postgres = machine["postgres"]
    packages = ", ".join(f"{name} {number}" for name, number in machine["packages"].items())
    disk = f"8 KB and fdatasync take {machine['fsync_8k_p50_ms']} ms"
    settings = ", ".join(f"{key} {value}" for key, value in list(postgres.items())[1:])
    loads = f"load {noise['load_before']} before, {noise['load_after']} after"
    lines = (
        f"{machine['cpus']} CPUs ({machine['cpu']}), {machine['system']}",
        f"{machine['filesystem']}: {disk}",
        f"Python {machine['python']}, {packages} ({machine['psycopg']})",
        f"PostgreSQL {postgres['server_version']}: {settings}",
        f"{loads}; {noise['seconds']} s in all",
    )
    return "\n".join(lines)


def _boundary(part: Json) -> str:
    head = ("turns", "path", "p50", "p99", "INSERT p50", "p99", "÷ p50", "÷ p10", "rounds")
    rows = [
        row
        for turns, found in _numbered(part)
        for row in (
            (turns, "whole", *_beside(found, "append", "bare", "")),
            (turns, "alone", *_beside(found, "statement", "bare_statement", "statement_")),
        )
    ]
    encode = [
        (
            turns,
            found["encode_p50_ms"],
            found["ratio_with_encode"],
            found["client_cpu_mean_ms"],
            found["bare_client_cpu_mean_ms"],
        )
        for turns, found in _numbered(part)
    ]
    growth = part["growth"]
    slope = (
        f"mean at {growth['turns'][1]} turns ÷ mean at {growth['turns'][0]}: {growth['append']}"
        f" (rounds {_range(growth['append_rounds'])}), of the bare INSERT {growth['bare']}"
    )
    names = ("turns", "encode p50", "÷ p50 with it", "client CPU with it, mean", "of the INSERT")
    return "\n\n".join((table(head, rows), slope, table(names, encode)))


def _beside(found: Json, mine: str, bare: str, key: str) -> Row:
    """A boundary's times, its INSERT's, and their ratios."""
    return (
        found[mine]["p50_ms"],
        found[mine]["p99_ms"],
        found[bare]["p50_ms"],
        found[bare]["p99_ms"],
        found[f"{key}ratio"],
        found[f"{key}ratio_quiet"],
        _range(found[f"{key}ratio_rounds"]),
    )


def _wal(part: Json) -> str:
    keys = ("stored_bytes", "append_bytes", "limit_bytes", "bare_bytes", "after_checkpoint_bytes")
    rows = [(turns, *(found[key] for key in keys)) for turns, found in _numbered(part)]
    return table(("turns", "stored", "boundary", "limit", "INSERT", "after a checkpoint"), rows)


def _fresh(part: Json) -> str:
    append, bare = part["append"], part["bare"]
    rows = [(append["p50_ms"], append["p99_ms"], bare["p50_ms"], bare["p99_ms"], part["ratio"])]
    return table(("p50", "p99", "connect + INSERT p50", "p99", "÷ p50"), rows)


def _parallel(part: Json) -> str:
    rows = [
        (
            runs,
            found["append"]["per_second"],
            found["append"]["p50_ms"],
            found["append"]["p99_ms"],
            found["bare"]["per_second"],
            found["bare"]["p50_ms"],
            found["bare"]["p99_ms"],
            found["rate_to_bare"],
            _range(found["rate_to_bare_phases"]),
        )
        for runs, found in _numbered(part)
    ]
    head = ("runs", "boundaries/s", "p50 ms", "p99 ms", "INSERTs/s", "p50 ms", "p99 ms")
    return table((*head, "rate ÷", "phases"), rows)


def _restore(part: Json) -> str:
    keys = (
        "with_snapshot_ms",
        "with_snapshot_cpu_ms",
        "without_snapshot_ms",
        "without_snapshot_cpu_ms",
        "fetch_ms",
        "fold_ms",
        "select_ms",
        "ratio_to_select",
        "queries",
        "tail_commits",
        "stored_bytes",
        "snapshot_share",
    )
    rows = [(commits, *(found[key] for key in keys)) for commits, found in _numbered(part)]
    head = (
        "commits",
        "with snapshot",
        "CPU",
        "without",
        "CPU",
        "fetch",
        "decode + fold",
        "bare SELECT",
    )
    return table((*head, "÷", "queries", "tail", "stored bytes", "snapshots ÷ stored, peak"), rows)


def _peers(part: Json) -> str:
    rows: list[Row] = []
    for name, found in part.items():
        for turns, answer in found.items():
            if isinstance(answer, str):
                rows.append((name, turns, answer, "", "", ""))
            else:
                bare = answer["bare_p50_ms"]
                rows.append(
                    (name, turns, answer["p50_ms"], bare, answer["ratio"], answer["wal_bytes"])
                )
    return table(("peer", "turns", "p50", "INSERT p50", "÷ p50", "WAL bytes"), rows)


def _targets(part: Sequence[Json]) -> str:
    rows = [
        (each["what"], each["limit"], each["value"], "yes" if each["met"] else "NO")
        for each in part
    ]
    return table(("target", "at most", "measured", "met"), rows)


def table(head: Row, rows: Sequence[Row]) -> str:
    """Aligned, and Markdown."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _numbered(part: Json) -> Iterator[tuple[str, Any]]:
    return ((name, found) for name, found in part.items() if name.isdigit())


def _range(values: Sequence[float]) -> str:
    return f"{values[0]} to {values[-1]}"
