"""Verbs that change a run or decide: approve, deny, suspend, resume, cancel, delete, kill."""

from __future__ import annotations

from typing import Any

import click

from agentrun.cli.where import Where, placed


def _decision(verb: str, decision: str, text: str) -> click.Command:
    @click.command(verb, help=text)
    @click.argument("name")
    @click.option("--reason", default="", help="Why; the model sees it when a call is denied.")
    @placed
    async def decide(where: Where, name: str, reason: str) -> int:
        async with where.desk() as desk:
            approval = await desk.decide(name, decision, reason=reason)
        click.echo(f"{name}: {decision} by {approval.spec.decided_by or 'you'}")
        return 0

    return decide


approve = _decision("approve", "Approve", "Approve what an Approval shows.")
deny = _decision("deny", "Deny", "Deny what an Approval shows.")


@click.command()
@click.argument("name")
@click.argument("decision")
@click.option("--reason", default="", help="Why.")
@placed
async def decide(where: Where, name: str, decision: str, reason: str) -> int:
    """Write any decision that fits the Approval's scope."""
    async with where.desk() as desk:
        await desk.decide(name, decision, reason=reason)
    click.echo(f"{name}: {decision}")
    return 0


def _patch(verb: str, spec: dict[str, Any], done: str, text: str) -> click.Command:
    @click.command(verb, help=text)
    @click.argument("name")
    @placed
    async def patch(where: Where, name: str) -> int:
        async with where.desk() as desk:
            await desk.patch_run(name, spec)
        click.echo(f"{name}: {done}")
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
    async with where.desk() as desk:
        await desk.delete_run(name)
    click.echo(f"{name}: deleted")
    return 0


@click.command()
@click.argument("name")
@click.option("--signal", default="KILL", show_default=True, help="Signal for a local runner.")
@placed
async def kill(where: Where, name: str, signal: str) -> int:
    """Kill the current attempt. The run goes on in the next one."""
    async with where.desk() as desk:
        pod = await desk.kill(name, signal)
    click.echo(f"{name}: killed {pod}")
    return 0


COMMANDS = (approve, deny, decide, suspend, resume, cancel, delete, kill)
