"""The registry: names and labels that dashboards and alerts rely on."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from agentrun.telemetry.metrics import Metrics

NAMES = {
    "agentrun_runs": ("phase",),
    "agentrun_attempts_total": ("cause",),
    "agentrun_fenced_writes_total": (),
    "agentrun_checkpoint_seconds": ("boundary",),
    "agentrun_checkpoint_bytes_total": ("kind",),
    "agentrun_restore_seconds": (),
    "agentrun_restore_blocks": (),
    "agentrun_tool_unknown_outcome_total": ("policy",),
    "agentrun_model_calls_discarded_total": (),
    "agentrun_tokens_total": ("kind",),
    "agentrun_approval_wait_seconds": (),
    "agentrun_approval_decisions_total": ("decision", "result"),
    "agentrun_store_errors_total": ("kind",),
    "agentrun_store_regressed_total": (),
    "agentrun_k8s_requests_total": ("verb", "resource", "code"),
    "agentrun_watch_last_event_timestamp": ("resource",),
    "agentrun_queue_depth": (),
    "agentrun_reconcile_seconds": (),
}
UNBOUNDED = {"run", "name", "namespace", "run_uid", "tool", "model", "pod"}


def collectors(metrics: Metrics) -> dict[str, tuple[str, ...]]:
    found = {}
    for value in vars(metrics).values():
        described = getattr(value, "_name", None)
        if described is None or isinstance(value, CollectorRegistry):
            continue
        name = described + ("_total" if value._type == "counter" else "")
        found[name] = tuple(value._labelnames)
    return found


def test_every_promised_name_is_there_with_its_labels() -> None:
    assert collectors(Metrics()) == NAMES


def test_no_label_is_without_bound() -> None:
    labels = {label for names in collectors(Metrics()).values() for label in names}

    assert not labels & UNBOUNDED


def test_two_registries_do_not_share() -> None:
    one, two = Metrics(), Metrics()

    one.fenced_writes.inc()

    assert one.registry.get_sample_value("agentrun_fenced_writes_total") == 1
    assert two.registry.get_sample_value("agentrun_fenced_writes_total") == 0


def test_the_exposition_has_help_for_every_metric() -> None:
    text = Metrics().text().decode()

    for name in NAMES:
        assert f"# HELP {name} " in text
