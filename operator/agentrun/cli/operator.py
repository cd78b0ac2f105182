"""The operator of a cluster: environment in, a process that runs until SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import StrictBool, TypeAdapter
from pydantic.alias_generators import to_camel

from agentrun import __version__
from agentrun.api import Pricing
from agentrun.api.validation import DEFAULT_POLICY, AdminPolicy
from agentrun.cli.health import serve_health
from agentrun.cluster.environment import handed_on
from agentrun.cluster.kube.containers import PodDefaults
from agentrun.controller.app import Operator
from agentrun.controller.settings import Settings
from agentrun.errors import UsageError
from agentrun.telemetry import logs
from agentrun.telemetry.metrics import Metrics

HEALTH_PORT = 8080
PLAIN_TEXT = ("agentrun", "kopf")
"""Loggers that speak about objects and never about content: ours, and the watch's."""

T = TypeVar("T")

_PRICES = TypeAdapter(dict[str, Pricing])
_PRICES_EXAMPLE = '{"model": {"inputPerMTok": "3", "outputPerMTok": "15"}}'
_POLICY: TypeAdapter[dict[str, bool | tuple[str, ...]]] = TypeAdapter(
    dict[str, StrictBool | tuple[str, ...]]
)
_POLICY_EXAMPLE = '{"images": ["registry.example/*"], "commandServers": false}'
_POLICY_FIELDS = {to_camel(f.name): f.name for f in fields(AdminPolicy) if f.name != "pricing"}


async def run_operator(environ: Mapping[str, str]) -> int:
    """Serve until told to stop; the exit code."""
    from agentrun.cluster.kube.open import open_kube_cluster
    from agentrun.controller.watch import kopf_watch
    from agentrun.store.logins import NamespaceLogins
    from agentrun.store.operator_store import open_operator_store

    logs.configure(level=environ.get("AGENTRUN_LOG_LEVEL", "INFO"), plain_text=PLAIN_TEXT)
    dsn, key = _required(environ, "AGENTRUN_DSN"), _required(environ, "AGENTRUN_DB_KEY")
    logs.conceal(dsn, key)
    settings = operator_settings(environ)
    kubeconfig = environ.get("KUBECONFIG")
    metrics = Metrics()
    logins = NamespaceLogins(dsn, key.encode(), environ.get("AGENTRUN_RUNNER_DSN", ""))
    store = await open_operator_store(dsn)
    cluster = await open_kube_cluster(
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        namespaces=settings.namespaces,
        defaults=pod_defaults(environ),
        count=lambda verb, resource, code: metrics.k8s_requests.labels(
            verb=verb, resource=resource, code=str(code)
        ).inc(),
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    operator = Operator(
        store,
        cluster,
        settings,
        watch=kopf_watch(namespaces=settings.namespaces),
        credentials=logins.dsn,
        identity_check=partial(cluster.refuses_forgery, environ.get("POD_NAMESPACE") or "default"),
        metrics=metrics,
    )
    port = int(_number(environ, "AGENTRUN_HEALTH_PORT", HEALTH_PORT))
    health = await serve_health(port, operator, metrics)
    try:
        await store.ping()
        await operator.run(stop)
    finally:
        await health.cleanup()
        await cluster.close()
        await store.close()
    return 0


def operator_settings(environ: Mapping[str, str]) -> Settings:
    """Settings from the environment; UsageError names the variable that is wrong."""
    image = _required(environ, "AGENTRUN_IMAGE")
    namespaces = environ.get("AGENTRUN_NAMESPACES", "").split(",")
    return Settings(
        namespaces=tuple(name.strip() for name in namespaces if name.strip()),
        installation=environ.get("AGENTRUN_INSTALLATION") or "default",
        controller_name=environ.get("AGENTRUN_CONTROLLER_NAME", ""),
        image=image,
        workspace_image=environ.get("AGENTRUN_WORKSPACE_IMAGE") or image,
        policy=replace(
            admin_policy(environ.get("AGENTRUN_POLICY")),
            pricing=prices(environ.get("AGENTRUN_PRICING")),
        ),
        accept_unverified_decisions=environ.get("AGENTRUN_ACCEPT_UNVERIFIED") == "true",
        backoff_base=_number(environ, "AGENTRUN_BACKOFF_SECONDS", 10.0),
        settle_slack=_number(environ, "AGENTRUN_SETTLE_SECONDS", 30.0),
        poll=_number(environ, "AGENTRUN_POLL_SECONDS", 1.0),
        resync=_number(environ, "AGENTRUN_RESYNC_SECONDS", 300.0),
    )


def pod_defaults(environ: Mapping[str, str]) -> PodDefaults:
    """What all runner pods of the installation get."""
    return PodDefaults(
        image_pull_policy=environ.get("AGENTRUN_IMAGE_PULL_POLICY") or "IfNotPresent",
        version=__version__,
        runner_env={name: value for name, value in environ.items() if handed_on(name)},
    )


def prices(path: str | None) -> dict[str, Pricing]:
    """The operator's price table: model name to prices."""
    return _file("AGENTRUN_PRICING", path, _PRICES, _PRICES_EXAMPLE) if path else {}


def admin_policy(path: str | None) -> AdminPolicy:
    """What the administrator allows; what the file does not name stays at its default."""
    given = _file("AGENTRUN_POLICY", path, _POLICY, _POLICY_EXAMPLE) if path else {}
    changes: dict[str, Any] = {}
    for name, value in given.items():
        field = _POLICY_FIELDS.get(name)
        if field is None or isinstance(value, bool) is not isinstance(
            getattr(DEFAULT_POLICY, field), bool
        ):
            raise UsageError(
                f"{name} cannot be set so",
                attempted="read AGENTRUN_POLICY",
                on=path or "",
                advice=f"Names: {', '.join(_POLICY_FIELDS)}. {_POLICY_EXAMPLE}",
            )
        changes[field] = value
    return replace(DEFAULT_POLICY, **changes)


def _file(name: str, path: str, shape: TypeAdapter[T], example: str) -> T:
    try:
        return shape.validate_json(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(
            f"it cannot be used ({type(error).__name__})",
            attempted=f"read {name}",
            on=path,
            advice=f"It is JSON: {example}",
        ) from None


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if not value:
        raise UsageError(f"{name} is not set", attempted="start the operator")
    return value


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(environ.get(name, default))
    except ValueError:
        raise UsageError(f"{name} is not a number", attempted="start the operator") from None
