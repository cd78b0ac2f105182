"""The process of one attempt: environment in, exit code out."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Coroutine, Mapping
from typing import NoReturn

from agentrun.cluster import environment as names
from agentrun.errors import UsageError
from agentrun.runner import environ as environment
from agentrun.runner import failpoints
from agentrun.runner.clock import Clock, shift_wall
from agentrun.runner.drain import Drain
from agentrun.runner.environ import Settings
from agentrun.runner.exits import TERMINATION_LOG, Ending, Exit, ending_of, write_termination
from agentrun.runner.lifecycle import DEFAULT_STALL, World, live
from agentrun.runner.reporting import Reporter
from agentrun.store.port import RunnerStore
from agentrun.telemetry import logs

GRACE = 30.0
"""Seconds of grace until the spec is known: Kubernetes' own default."""
STOPS = (signal.SIGTERM, signal.SIGINT)
STRAGGLERS = 1.0
"""Seconds for tasks that do not end when they are told to."""


def run_attempt(environ: Mapping[str, str]) -> int:
    """Run the attempt that the environment names; the exit code."""
    logs.configure(level=environ.get(environment.LOG_LEVEL, "INFO"))
    try:
        failpoints.arm(environ)
        settings = environment.read(environ)
    except UsageError as error:
        logs.get().error("cannot start", error=error)
        ending = ending_of(error)
        path = environ.get(names.TERMINATION_LOG, TERMINATION_LOG)
        write_termination(path, ending)
        return int(ending.code)
    _prepare(settings)
    ending = _run(_attempt(settings))
    write_termination(settings.termination_log, ending)
    return int(ending.code)


def main() -> NoReturn:
    """``python -m agentrun.runner``. Leaves at once: a thread that still imports must not hold it.

    So does a signal before there is anything to drain: the first process of a container ignores what
    nobody handles, and would claim a run that it has to give up.
    """
    for number in STOPS:
        signal.signal(number, lambda *_: os._exit(Exit.DRAINED))
    code = run_attempt(os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _prepare(settings: Settings) -> None:
    if settings.clock_offset:
        shift_wall(settings.clock_offset)
    logs.conceal(
        settings.dsn,
        settings.secret,
        *(value for name, value in settings.environ.items() if _is_secret(name)),
    )
    logs.configure(
        level=settings.log_level, run_uid=settings.run_uid, fence=settings.fence, pid=os.getpid()
    )


SECRETS = ("AGENTRUN_API_KEY_", "AGENTRUN_HEADER_", "AGENTRUN_ENV_")
"""Beginnings of variables that hold values of users' Secrets."""


def _is_secret(name: str) -> bool:
    return name.endswith("API_KEY") or name.startswith(SECRETS)


async def _attempt(settings: Settings) -> Ending:
    from agentrun.runner.adapters import RealAdapters
    from agentrun.store.runner_store import open_runner_store

    clock = Clock()
    metrics = None
    if settings.metrics_port is not None:
        from agentrun.telemetry.metrics import Metrics

        metrics = Metrics()
        metrics.serve(settings.metrics_port)
    observer = Reporter(settings.environ, metrics)
    drain = Drain(clock, settings.grace or GRACE)
    loop = asyncio.get_running_loop()
    for number in STOPS:
        loop.add_signal_handler(number, drain.begin)
    nonce = secrets.token_hex(16)

    def hold(stall: float) -> RunnerStore:
        return open_runner_store(
            settings.dsn,
            run_uid=settings.run_uid,
            fence=settings.fence,
            secret=settings.secret.encode(),
            holder=settings.pod_uid,
            node=settings.node,
            nonce=nonce,
            stall_seconds=stall,
        )

    adapters = RealAdapters(settings, clock, observer)
    spec_says = settings.grace is None
    return await live(
        World(hold(DEFAULT_STALL), hold, adapters, clock, drain, observer, grace_of_spec=spec_says)
    )


def _run(work: Coroutine[object, object, Ending]) -> Ending:
    """As asyncio.run, but what does not end is left behind after a moment."""
    loop = asyncio.new_event_loop()
    try:
        ending = loop.run_until_complete(work)
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=STRAGGLERS))
        return ending
    finally:
        loop.close()
