"""The benchmarks run, say what they promise to say, and nothing in them grows that must not.

Counts, bytes and slopes with generous factors; never seconds, which belong to the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("bench")
"""One worker, so that it runs once."""

ROOT = Path(__file__).parents[2]
NOISE = 3.0
"""A slope may be off by so much on a machine that does other things."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of one quick run, as a person starts it."""
    out = tmp_path_factory.mktemp("bench") / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "## Targets" in done.stdout
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def lengths(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Entries by length, shortest first."""
    return [part[name] for name in sorted((n for n in part if n.isdigit()), key=int)]


def test_it_says_where_it_was_made(results: dict[str, Any]) -> None:
    machine = results["machine"]
    assert machine["cpus"] >= 1
    assert machine["postgres"]["fsync"] == "on", "as durable as in life"
    assert machine["postgres"]["synchronous_commit"] == "on"
    assert set(machine["packages"]) >= {"agentrun", "psycopg"}
    assert results["noise"]["seconds"] >= 0
    assert str(ROOT) not in json.dumps(results)


def test_a_boundary_costs_a_small_multiple_of_an_insert(results: dict[str, Any]) -> None:
    for found in lengths(results["boundary"]):
        samples = {found[name]["n"] for name in ("append", "bare", "statement", "bare_statement")}
        assert len(samples) == 1, "every boundary has its own INSERT"
        assert found["append"]["p50_ms"] <= found["append"]["p99_ms"]
        assert found["stored_bytes"] < found["payload_bytes"], "bodies are compressed"
        assert 0 < found["ratio"] <= 1.8 * NOISE
        assert 0 < found["statement_ratio"] <= 1.8 * NOISE


def test_nothing_of_a_boundary_grows_with_the_run(results: dict[str, Any]) -> None:
    assert results["boundary"]["growth"]["append_rounds"][1] <= 1.3 * NOISE
    first, *_, last = lengths(results["wal"])
    assert last["append_bytes"] <= 1.5 * first["append_bytes"]
    assert last["append_bytes"] <= 1.3 * last["limit_bytes"], "give or take a page"
    assert results["round_trips"] == 1.0


def test_a_restore_is_few_queries_and_linear(results: dict[str, Any]) -> None:
    first, *_, last = lengths(results["restore"])
    assert {first["queries"], last["queries"]} <= {1, 2, 3}
    growth = last["commits"] / first["commits"]
    assert last["without_snapshot_ms"] <= NOISE * growth * first["without_snapshot_ms"]
    assert last["snapshot_bytes"] > 0, "the longest run has written a snapshot"


def test_runs_at_once_are_counted_apart(results: dict[str, Any]) -> None:
    for found in lengths(results["parallel"]):
        assert found["append"]["n"] > 0
        assert found["bare"]["n"] > 0
        assert found["rate_to_bare"] > 0


def test_a_new_connection_is_measured_beside_a_new_connection(results: dict[str, Any]) -> None:
    assert results["fresh"]["append"]["n"] == results["fresh"]["bare"]["n"] > 0


def test_the_peer_that_overwrites_grows_where_we_do_not(results: dict[str, Any]) -> None:
    first, *_, last = lengths(results["peers"]["one row, overwritten"])
    assert last["wal_bytes"] >= 4 * first["wal_bytes"]


def test_every_target_has_its_verdict(results: dict[str, Any]) -> None:
    assert len(results["targets"]) >= 10
    for target in results["targets"]:
        assert target["met"] == (target["value"] <= target["limit"])
