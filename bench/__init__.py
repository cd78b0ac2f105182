"""Measured workloads: what the record in Postgres costs, as ratios against peers of the same run.

``python -m bench`` from the repository root. docs/benchmarks.md says what each number means.
"""
