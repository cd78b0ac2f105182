"""Verbs that look: get, describe, logs, events, wait."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from agentrun.api import AgentRun, Approval, AttemptStatus, ConditionType, Phase, Usage
from agentrun.cli.hints import say_who_takes_it_up
from agentrun.cli.output import (
    age,
    as_text,
    document,
    moment,
    output_option,
    print_table,
    show,
    visible,
)
from agentrun.cli.parameters import Duration
from agentrun.cli.where import Where, placed
from agentrun.errors import NotFound, UsageError

DELETED = "delete"
LOOK_AGAIN = 0.3
"""Seconds between looks of ``wait``."""


@click.command()
@click.argument("kind", default="runs")
@click.argument("name", required=False)
@output_option
@placed
async def get(where: Where, kind: str, name: str | None, output: str) -> int:
    """List runs or approvals, or show one."""
    async with where.objects() as objects:
        items: Sequence[AgentRun | Approval]
        if kind in ("approvals", "approval", "appr"):
            items = [await objects.get_approval(name)] if name else await objects.list_approvals()
        elif kind in ("runs", "run", "arun", "agentruns", "agentrun"):
            items = [await objects.get_run(name)] if name else await objects.list_runs()
        elif name is None:
            items = [await objects.get_run(kind)]
        else:
            raise click.UsageError(f"unknown kind {kind!r}: runs or approvals")
    if name and output in ("json", "yaml"):
        click.echo(as_text(document(items[0]), output))
    else:
        show(items, output)
    return 0


@click.command()
@click.argument("name")
@placed
async def describe(where: Where, name: str) -> int:
    """Show a run with its attempts, conditions, approvals and events."""
    async with where.objects() as objects:
        run = await objects.get_run(name)
        pending = [
            item for item in await objects.list_approvals() if item.spec.run_ref.name == name
        ]
        events = await objects.events(name)
    for line in _summary(run):
        click.echo(line)
    if run.status and run.status.attempts:
        click.echo("Attempts:")
        _show_attempts(run.status.attempts)
    if pending:
        click.echo("Approvals:")
        show(pending, "table")
    if events:
        click.echo("Events:")
        print_table(
            ["  AGE", "TYPE", "REASON", "NOTE"],
            [[f"  {age(e.at)}", e.type, e.reason, e.note] for e in events],
        )
    return 0


def _show_attempts(attempts: Sequence[AttemptStatus]) -> None:
    header = [
        "  N",
        "POD",
        "STARTED",
        "ENDED",
        "CAUSE",
        "FAULT",
        "EXIT",
        "LAST SEQ",
        "CONTINUED FROM",
    ]
    rows = []
    for item in attempts:
        origin = item.continued_from
        rows.append(
            [
                f"  {item.attempt}",
                item.pod,
                moment(item.started_at),
                moment(item.ended_at),
                item.cause,
                item.fault or "",
                "" if item.exit_code is None else str(item.exit_code),
                str(item.last_seq),
                f"{origin.attempt} at {origin.seq}" if origin else "",
            ]
        )
    print_table(header, rows)


def _summary(run: AgentRun) -> list[str]:
    status = run.status
    lines = [
        f"Name:       {run.metadata.name}",
        f"Namespace:  {run.metadata.namespace}",
        f"UID:        {run.metadata.uid}",
        f"Phase:      {status.phase if status else 'Pending'}",
    ]
    if status:
        lines += [
            f"Reason:     {status.reason}",
            f"Message:    {visible(status.message)}",
            f"Attempt:    {status.attempt} (fence {status.fence}{_pod(status.pod_name)})",
            f"Usage:      {_usage(status.usage)}",
        ]
        lines += [
            f"Condition:  {c.type}={c.status} {c.reason} {visible(c.message)}"
            for c in status.conditions
        ]
        if status.result:
            lines.append(f"Result:     {visible(status.result)}")
    return lines


def _pod(name: str) -> str:
    return f", pod {name}" if name else ""


def _usage(usage: Usage | None) -> str:
    usage = usage or Usage()
    return f"{usage.turns} turns, {usage.tool_calls} tool calls, {usage.total_tokens} tokens"


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until the attempt ends.")
@placed
async def logs(where: Where, name: str, follow: bool) -> int:
    """Print the log of the latest attempt."""
    async with where.objects() as objects:
        async for line in objects.logs(name, follow=follow):
            click.echo(line)
    return 0


@click.command()
@click.argument("name")
@placed
async def events(where: Where, name: str) -> int:
    """List the Events about a run."""
    async with where.objects() as objects:
        found = await objects.events(name)
        if not found:
            await objects.get_run(name)
    print_table(
        ["AGE", "TYPE", "REASON", "NOTE"],
        [[age(item.at), item.type, item.reason, item.note] for item in found],
    )
    return 0


@click.command()
@click.argument("name")
@click.option("--for", "goal", default="Finished", show_default=True, help="Condition to wait for.")
@click.option(
    "--timeout",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How long: 30, 30s, 10m, 1h.",
)
@placed
async def wait(where: Where, name: str, goal: str, timeout: float) -> int:  # noqa: ASYNC109
    """Wait until a condition of a run is True, or a phase is reached."""
    goal = _goal(goal)
    async with where.objects() as objects:
        seen = await objects.get_run(name)
        if not _reached(seen, goal) and not _never(seen, goal):
            say_who_takes_it_up(where)
        try:
            async with asyncio.timeout(timeout):
                while not _reached(run := await objects.get_run(name), goal):
                    if _never(run, goal):
                        click.echo(f"{name} finished without {goal}", err=True)
                        return 1
                    await asyncio.sleep(LOOK_AGAIN)
        except TimeoutError:
            click.echo(f"timed out waiting for {goal} of {name}", err=True)
            return 1
        except NotFound:
            if goal != DELETED:
                raise
    click.echo(f"{name}: {goal}")
    return 0


def _goal(given: str) -> str:
    """A condition or phase as the API spells it; kubectl does not mind the case either."""
    known = {name.lower(): name for name in (*ConditionType, *Phase, DELETED)}
    name = given.removeprefix("condition=").removesuffix("=True").removesuffix("=true")
    if name.lower() not in known:
        raise UsageError(
            f"{given} is neither a condition nor a phase",
            attempted="wait",
            advice=f"Known are {', '.join(sorted(known.values()))}",
        )
    return str(known[name.lower()])


def _reached(run: AgentRun, goal: str) -> bool:
    status = run.status
    if status is None:
        return False
    return status.phase == goal or any(
        condition.type == goal and condition.status == "True" for condition in status.conditions
    )


def _never(run: AgentRun, goal: str) -> bool:
    return goal != DELETED and run.status is not None and run.status.phase.terminal


COMMANDS = (get, describe, logs, events, wait)
