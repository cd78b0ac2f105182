"""``agentrun run``: apply manifests and, in local mode, be the operator until they are done."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

from agentrun.api import AgentRun, Approval, Phase, Reason
from agentrun.cli.local_operator import local_operator, prepare
from agentrun.cli.manifests import Manifest, read_manifests
from agentrun.cli.progress import Progress
from agentrun.cli.where import Where, placed
from agentrun.cluster.port import UserCluster
from agentrun.devmodel import load_script
from agentrun.errors import AgentRunError, NotFound, UsageError

LOOK_AGAIN = 0.2
INTERRUPTED = 130
FOR_PEOPLE = frozenset(
    {Reason.APPROVAL_PENDING, Reason.SUSPENDED_BY_USER, Reason.BUDGET_EXCEEDED, Reason.INVALID_SPEC}
)
"""Reasons for which a run waits until somebody does something."""


@click.command("run")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--model-script", type=click.Path(path_type=Path), help="Play this instead of a model."
)
@click.option("--model-log", type=click.Path(path_type=Path), help="With --model-script: its log.")
@click.option("--no-wait", is_flag=True, help="Apply and return; drive them with a later run.")
@placed
async def run(
    where: Where,
    files: tuple[Path, ...],
    model_script: Path | None,
    model_log: Path | None,
    no_wait: bool,
) -> int:
    """Apply manifests and follow them to the end.

    Ends with 0 when all runs succeeded, 1 when one did not, 3 when all that is left waits for
    people. The same state folder and name goes on where it was.
    """
    manifests = read_manifests(files)
    if where.cluster:
        async with where.objects() as objects:
            names = await _apply(objects, manifests)
            return 0 if no_wait else await _follow(objects, names, local=False)
    if model_script is not None:
        load_script(model_script)
    if where.dsn is not None:
        await prepare(where.dsn)
    async with _local_objects(where) as objects:
        names = await _apply(objects, manifests)
        if no_wait:
            return 0
        async with local_operator(where, model_script, model_log) as operator:
            code = await _until_stopped(operator.task, _follow(objects, names, local=True))
            if code == INTERRUPTED:
                click.echo("stopping: the runners commit and give their runs back", err=True)
                await operator.drain()
            return code


@asynccontextmanager
async def _local_objects(where: Where) -> AsyncIterator[UserCluster]:
    from agentrun.cluster.local.open import open_local_user

    objects = open_local_user(where.state)
    try:
        yield objects
    finally:
        await objects.close()


async def _apply(objects: UserCluster, manifests: Sequence[Manifest]) -> list[str]:
    """Names of the applied runs. The first refusal stops, naming the file; nothing is started."""
    names: list[str] = []
    for manifest in manifests:
        try:
            applied = await objects.apply(manifest.document)
        except AgentRunError as error:
            raise UsageError(str(error), attempted="apply", on=manifest.source) from None
        click.echo(f"{applied.kind.lower()}/{applied.key.name} {applied.outcome}", err=True)
        if applied.kind == "AgentRun":
            names.append(applied.key.name)
    if not names:
        raise UsageError("no AgentRun among the manifests", attempted="run")
    return names


async def _follow(objects: UserCluster, names: Sequence[str], *, local: bool) -> int:
    with Progress() as progress:
        while True:
            runs = [found for name in names if (found := await _find(objects, name))]
            progress.show(runs)
            left = [item for item in runs if not (item.status and item.status.phase.terminal)]
            if not left:
                return _verdict(runs, names)
            if all(waits_for_people(item) for item in left):
                asked = [a for a in await objects.list_approvals() if a.spec.decision is None]
                if all(_still_waits(item, asked) for item in left):
                    _say_what_to_do(left, asked, local=local)
                    return 3
            await asyncio.sleep(LOOK_AGAIN)


async def _find(objects: UserCluster, name: str) -> AgentRun | None:
    try:
        return await objects.get_run(name)
    except NotFound:
        return None


def waits_for_people(item: AgentRun) -> bool:
    """Whether nothing will happen to the run until somebody acts."""
    status = item.status
    return (
        status is not None
        and status.observed_generation == item.metadata.generation
        and status.reason in FOR_PEOPLE
        and status.phase in (Phase.SUSPENDED, Phase.PENDING)
    )


def _verdict(runs: Sequence[AgentRun], names: Sequence[str]) -> int:
    done = [item for item in runs if item.status and item.status.phase is Phase.SUCCEEDED]
    for item in runs:
        status = item.status
        if status and status.phase is not Phase.SUCCEEDED:
            click.echo(
                f"{item.metadata.name}: {status.phase} {status.reason} {status.message}", err=True
            )
    return 0 if len(done) == len(names) else 1


def _still_waits(item: AgentRun, asked: Sequence[Approval]) -> bool:
    """A decision that was just made will be taken up: such a run waits for nobody."""
    status = item.status
    if status is None or status.reason != Reason.APPROVAL_PENDING:
        return True
    return any(approval.spec.run_ref.name == item.metadata.name for approval in asked)


def _say_what_to_do(left: Sequence[AgentRun], asked: Sequence[Approval], *, local: bool) -> None:
    program = "agentrun" if local else "kubectl agentrun"
    for item in left:
        name = item.metadata.name or ""
        status = item.status
        click.echo(f"{name}: {status.reason if status else ''} {status.message if status else ''}")
        for approval in asked:
            if approval.spec.run_ref.name == name:
                click.echo(f"  {approval.spec.content.tool} {approval.spec.content.arguments_json}")
                click.echo(f"  {program} approve {approval.metadata.name}")
                click.echo(f"  {program} deny {approval.metadata.name}")
        if status and status.reason == Reason.SUSPENDED_BY_USER:
            click.echo(f"  {program} resume {name}")
    if local:
        click.echo("then go on with the same command", err=True)


async def _until_stopped(operator: asyncio.Task[None], follow: Coroutine[None, None, int]) -> int:
    """Follow until done, the operator dies, or the user interrupts."""
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    following = asyncio.create_task(follow)
    stopping = asyncio.create_task(interrupted.wait())
    try:
        await asyncio.wait({operator, following, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            return following.result()
        if operator.done():
            operator.result()
            raise UsageError("the operator stopped", attempted="run")
        return INTERRUPTED
    finally:
        following.cancel()
        stopping.cancel()
        await asyncio.gather(following, stopping, return_exceptions=True)


COMMANDS = (run,)
