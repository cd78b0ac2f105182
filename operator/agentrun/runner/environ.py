"""What a runner finds in its environment (docs/architecture.md has the table)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentrun.cluster import environment as names
from agentrun.errors import UsageError
from agentrun.runner import exits

LOG_LEVEL = "AGENTRUN_LOG_LEVEL"
METRICS_PORT = "AGENTRUN_METRICS_PORT"
CLOCK_OFFSET = "AGENTRUN_CLOCK_OFFSET"


@dataclass(frozen=True, slots=True)
class Settings:
    """One attempt's identity and surroundings. Secrets are not shown by ``repr``."""

    run_uid: str
    fence: int
    pod_uid: str
    dsn: str = field(repr=False)
    secret: str = field(repr=False)
    node: str | None = None
    grace: float | None = None
    """Seconds between SIGTERM and SIGKILL; None: as the spec says."""
    termination_log: str = exits.TERMINATION_LOG
    log_level: str = "INFO"
    metrics_port: int | None = None
    clock_offset: float = 0.0
    model_url: str | None = None
    workspace_socket: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The whole environment: API keys and headers are looked up by the spec's own names."""


def read(environ: Mapping[str, str]) -> Settings:
    """The settings; UsageError names what is missing or wrong."""
    folder = Path(_given(environ, names.SECRET_DIR))
    return Settings(
        run_uid=_given(environ, names.RUN_UID),
        fence=int(_number(environ, names.FENCE, None)),
        pod_uid=_given(environ, names.POD_UID),
        dsn=_file(folder, names.DSN_ENTRY),
        secret=_file(folder, names.ATTEMPT_ENTRY),
        node=environ.get(names.NODE) or None,
        grace=_number(environ, names.GRACE, 0.0) or None,
        termination_log=environ.get(names.TERMINATION_LOG, exits.TERMINATION_LOG),
        log_level=environ.get(LOG_LEVEL, "INFO"),
        metrics_port=int(_number(environ, METRICS_PORT, 0)) or None,
        clock_offset=_number(environ, CLOCK_OFFSET, 0.0),
        model_url=environ.get(names.MODEL_URL) or None,
        workspace_socket=environ.get(names.WORKSPACE_SOCKET) or None,
        environ=environ,
    )


def _given(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise _wrong(f"{name} is not set")
    return value


def _number(environ: Mapping[str, str], name: str, default: float | None) -> float:
    text = environ.get(name, "").strip()
    if not text and default is not None:
        return default
    try:
        return float(text)
    except ValueError:
        raise _wrong(f"{name} is not a number") from None


def _file(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(f"the file {name!r} cannot be read ({type(error).__name__})") from None


def _wrong(why: str) -> UsageError:
    return UsageError(
        why,
        attempted="read the runner's environment",
        advice="A runner is started by the operator, which sets it.",
    )
