"""Verbs that change a run or decide: approve, deny, suspend, resume, cancel, delete, kill."""

from __future__ import annotations

import signal as signals
from typing import Any

import click

from agentrun.api import Decision, Reason
from agentrun.cli.hints import say_who_takes_it_up
from agentrun.cli.where import Where, placed

HELD_BY_OTHERS = frozenset({Reason.APPROVAL_PENDING, Reason.BUDGET_EXCEEDED})
"""Suspensions that ``resume`` does not end."""


def _decision(verb: str, decision: Decision, text: str) -> click.Command:
    @click.command(verb, help=text)
    @click.argument("name")
    @click.option("--reason", default="", help="Why; the model sees it when a call is denied.")
    @placed
    async def decide(where: Where, name: str, reason: str) -> int:
        async with where.objects() as objects:
            approval = await objects.decide(name, decision, reason=reason)
        click.echo(f"{name}: {decision} by {approval.spec.decided_by or 'you'}")
        say_who_takes_it_up(where)
        return 0

    return decide


approve = _decision("approve", Decision.APPROVE, "Approve what an Approval shows.")
deny = _decision("deny", Decision.DENY, "Deny what an Approval shows.")


@click.command()
@click.argument("name")
@click.argument("text")
@placed
async def answer(where: Where, name: str, text: str) -> int:
    """Answer the question that an Approval asks."""
    async with where.objects() as objects:
        await objects.decide(name, Decision.ANSWER, answer=text)
    click.echo(f"{name}: answered")
    say_who_takes_it_up(where)
    return 0


@click.command()
@click.argument("name")
@click.argument("decision", type=click.Choice([item.value for item in Decision]))
@click.option("--reason", default="", help="Why.")
@click.option("--answer", "text", default="", help="With Answer and UseResult: the answer.")
@placed
async def decide(where: Where, name: str, decision: str, reason: str, text: str) -> int:
    """Write any decision that fits the Approval's scope."""
    async with where.objects() as objects:
        await objects.decide(name, Decision(decision), reason=reason, answer=text)
    click.echo(f"{name}: {decision}")
    say_who_takes_it_up(where)
    return 0


def _patch(verb: str, spec: dict[str, Any], done: str, text: str) -> click.Command:
    @click.command(verb, help=text)
    @click.argument("name")
    @placed
    async def patch(where: Where, name: str) -> int:
        async with where.objects() as objects:
            status = (await objects.change_run(name, spec)).status
        if status is not None and status.phase.terminal:
            click.echo(f"{name}: it has ended ({status.phase}), so nothing changes")
            return 0
        click.echo(f"{name}: {done}")
        if verb == "resume" and status is not None and status.reason in HELD_BY_OTHERS:
            click.echo(f"{name}: it waits still: {status.reason} {status.message}", err=True)
        say_who_takes_it_up(where)
        return 0

    return patch


suspend = _patch(
    "suspend", {"suspend": True}, "suspend requested", "Stop at the next boundary and wait."
)
resume = _patch("resume", {"suspend": False}, "resume requested", "Go on after a suspend.")
cancel = _patch("cancel", {"cancel": True}, "cancel requested", "End the run.")


@click.command()
@click.argument("name")
@placed
async def delete(where: Where, name: str) -> int:
    """Delete the run. Its pod is stopped at once."""
    async with where.objects() as objects:
        await objects.remove_run(name)
    click.echo(f"{name}: deleted")
    return 0


@click.command()
@click.argument("name")
@click.option("--signal", default="KILL", show_default=True, help="Signal for a local runner.")
@placed
async def kill(where: Where, name: str, signal: str) -> int:
    """Kill the current attempt. The run goes on in the next one."""
    async with where.objects() as objects:
        pod = await objects.kill(name, _number(signal))
    click.echo(f"{name}: killed {pod}")
    return 0


def _number(name: str) -> int:
    """A signal by name or number, as ``kill`` takes it."""
    try:
        return (
            int(name)
            if name.isdigit()
            else signals.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
        )
    except KeyError:
        raise click.UsageError(f"no such signal: {name}") from None


COMMANDS = (approve, deny, answer, decide, suspend, resume, cancel, delete, kill)
