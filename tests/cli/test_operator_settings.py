"""What the operator's environment does to runner pods, and what a scrape of it shows."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from tests.controller.test_app import Stage
from tests.controller.worlds import KEY, run

from agentrun.api.validation import DEFAULT_POLICY
from agentrun.cli.health import serve_health
from agentrun.cli.operator import operator_settings, pod_defaults
from agentrun.errors import UsageError
from agentrun.telemetry.metrics import Metrics

IMAGE = {"AGENTRUN_IMAGE": "r/agentrun:1"}


def test_log_level_metrics_port_and_traces_are_handed_on_to_runner_pods() -> None:
    given = {
        "AGENTRUN_LOG_LEVEL": "DEBUG",
        "AGENTRUN_METRICS_PORT": "9100",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
    }
    assert pod_defaults({**given, "AGENTRUN_POLL_SECONDS": "1", "PATH": "/bin"}).runner_env == given


@pytest.mark.parametrize(
    "name",
    [
        "AGENTRUN_DSN",
        "AGENTRUN_DB_KEY",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    ],
)
def test_credentials_of_the_operator_never_reach_a_pods_manifest(name: str) -> None:
    assert pod_defaults({name: "authorization=secret"}).runner_env == {}


def test_runner_pods_pull_as_the_chart_says() -> None:
    assert pod_defaults({"AGENTRUN_IMAGE_PULL_POLICY": "Never"}).image_pull_policy == "Never"
    assert pod_defaults({}).image_pull_policy == "IfNotPresent"


def test_the_administrator_allows_by_the_charts_policy(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text('{"serviceAccounts": ["bedrock"], "commandServers": true}')
    policy = operator_settings({**IMAGE, "AGENTRUN_POLICY": str(file)}).policy
    assert (policy.service_accounts, policy.command_servers) == (("bedrock",), True)
    assert policy.pod_env == DEFAULT_POLICY.pod_env


@pytest.mark.parametrize(
    "text",
    ['{"imagess": []}', '{"images": true}', '{"commandServers": "yes"}', '{"pricing": []}', "[]"],
)
def test_a_policy_that_cannot_be_meant_stops_the_operator(tmp_path: Path, text: str) -> None:
    """Taken for the default, a misspelt list would allow everything."""
    file = tmp_path / "policy.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="AGENTRUN_POLICY"):
        operator_settings({**IMAGE, "AGENTRUN_POLICY": str(file)})


def test_a_price_table_is_read(tmp_path: Path) -> None:
    file = tmp_path / "pricing.json"
    file.write_text('{"m": {"inputPerMTok": "3", "outputPerMTok": "15"}}')
    found = operator_settings({**IMAGE, "AGENTRUN_PRICING": str(file)}).policy.pricing
    assert found["m"].input_per_m_tok == "3"


def test_watched_namespaces_are_a_list_with_commas() -> None:
    assert operator_settings({**IMAGE, "AGENTRUN_NAMESPACES": "a, b,"}).namespaces == ("a", "b")
    assert operator_settings(IMAGE).namespaces == ()


def test_a_setting_that_is_no_number_is_named() -> None:
    with pytest.raises(UsageError, match="AGENTRUN_POLL_SECONDS"):
        operator_settings({**IMAGE, "AGENTRUN_POLL_SECONDS": "often"})


async def test_a_scrape_shows_what_the_operator_has_done() -> None:
    metrics = Metrics()
    stage = Stage(metrics=metrics)
    stage.cluster.apply(run())
    stage.start()
    await stage.until(lambda: stage.cluster.runs[KEY].status is not None)
    served = await serve_health(0, stage.operator, metrics)
    port = next(address[1] for address in served.addresses if len(address) == 2)  # IPv4
    try:
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"http://127.0.0.1:{port}/metrics") as answer,
        ):
            assert "version=" in answer.headers["Content-Type"]
            lines = (await answer.text()).splitlines()
    finally:
        await served.cleanup()
        await stage.end()
    assert 'agentrun_attempts_total{cause="start"} 1.0' in lines
    assert 'agentrun_runs{phase="Pending"} 1.0' in lines
    assert 'agentrun_runs{phase="Succeeded"} 0.0' in lines
    assert "agentrun_queue_depth 0.0" in lines
    assert "agentrun_reconcile_seconds_count 0.0" not in lines
