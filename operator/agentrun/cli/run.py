"""``agentrun run``: apply manifests and, in local mode, be the operator until they are done."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click

from agentrun.api import AgentRun, Approval, Phase, Reason
from agentrun.cli.apply import apply_all, generated, in_their_namespace, unfinished
from agentrun.cli.hints import ResumeCommand, say_what_to_do, say_who_takes_it_up
from agentrun.cli.local_operator import local_operator, prepare
from agentrun.cli.manifests import Manifest, read_manifests
from agentrun.cli.output import visible
from agentrun.cli.progress import Progress
from agentrun.cli.where import Where, placed
from agentrun.cluster.environment import API_KEY, MODEL_URL
from agentrun.cluster.local.admission import only_in_clusters
from agentrun.cluster.port import UserCluster
from agentrun.devmodel import load_script
from agentrun.errors import NotFound, UsageError

LOOK_AGAIN = 0.2
INTERRUPTED = 130
FOR_PEOPLE = frozenset(
    {Reason.APPROVAL_PENDING, Reason.SUSPENDED_BY_USER, Reason.BUDGET_EXCEEDED, Reason.INVALID_SPEC}
)
"""Reasons for which a run waits until somebody does something."""


@click.command("run")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--model-script", type=click.Path(path_type=Path), help="Play this instead of a model."
)
@click.option("--model-log", type=click.Path(path_type=Path), help="With --model-script: its log.")
@click.option("--no-wait", is_flag=True, help="Apply and return; a later run drives them.")
@placed
async def run(
    where: Where,
    files: tuple[Path, ...],
    model_script: Path | None,
    model_log: Path | None,
    no_wait: bool,
) -> int:
    """Apply manifests and follow them to the end.

    Without FILES, go on with every unfinished run of the state folder. Ends with 0 when all runs
    succeeded, 1 when one did not, 3 when all that is left waits for people. The same state folder
    and name goes on where it was.
    """
    _demand_use(where, files, model_script, model_log, no_wait)
    manifests = read_manifests(files) if files else ()
    where = in_their_namespace(where, manifests)
    if where.cluster:
        async with where.objects() as objects:
            names = await apply_all(objects, manifests)
            return 0 if no_wait else await _follow(objects, names, ResumeCommand(where))
    if model_script is not None:
        load_script(model_script)
    again = ResumeCommand(where, () if generated(manifests) else files, model_script)
    return await _locally(again, manifests, model_log, no_wait=no_wait)


def _demand_use(
    where: Where,
    files: Sequence[Path],
    script: Path | None,
    log: Path | None,
    no_wait: bool,
) -> None:
    """An option that would do nothing is refused."""
    if log is not None and script is None:
        raise UsageError("--model-log is the log of --model-script, which is not given")
    if where.cluster and script is not None:
        raise UsageError(
            "--model-script is for local mode; in a cluster, serve it with: agentrun dev model"
        )
    if not files and (where.cluster or no_wait):
        raise UsageError("no manifest is given", advice="Give at least one FILE.")
    if no_wait and script is not None:
        raise UsageError(
            "--model-script does nothing with --no-wait, which only applies",
            advice="Give it to the run that drives them.",
        )


async def _locally(
    again: ResumeCommand, manifests: Sequence[Manifest], log: Path | None, *, no_wait: bool
) -> int:
    where, script = again.where, again.script
    if where.dsn is not None:
        await prepare(where.dsn)
    if not manifests:
        where.existing_state()
    async with _local_objects(where) as objects:
        names = await _to_follow(objects, manifests, where)
        if no_wait:
            say_who_takes_it_up(where)
            return 0
        await _demand_keys(objects, names, again)
        async with local_operator(where, script, log) as operator:
            code = await _until_stopped(operator.task, _follow(objects, names, again))
            if code == INTERRUPTED:
                click.echo("stopping: the runners commit and give their runs back", err=True)
                await operator.drain()
                click.echo(f"go on with: {again}", err=True)
            return code


@asynccontextmanager
async def _local_objects(where: Where) -> AsyncIterator[UserCluster]:
    from agentrun.cluster.local.open import open_local_user

    objects = open_local_user(where.state, namespace=where.local_namespace)
    try:
        yield objects
    finally:
        await objects.close()


async def _to_follow(
    objects: UserCluster, manifests: Sequence[Manifest], where: Where
) -> list[str]:
    if not manifests:
        names = [item.metadata.name for item in await unfinished(objects)]
        if not names:
            raise UsageError(
                "every run has ended",
                attempted="go on",
                on=str(where.state),
                advice="Start another one with: agentrun run FILE",
            )
        return names
    names = await apply_all(objects, manifests)
    for name in names:
        if idle := only_in_clusters((await objects.get_run(name)).spec):
            click.echo(f"{name}: local mode does not use {', '.join(idle)}", err=True)
    return names


async def _demand_keys(objects: UserCluster, names: Sequence[str], again: ResumeCommand) -> None:
    """Without a key the first request would be refused and the run would have failed for good."""
    if again.script is not None or os.environ.get(API_KEY) or os.environ.get(MODEL_URL):
        return
    for item in await unfinished(objects):
        models = [item.spec.model_of(agent) for agent in item.spec.agents]
        if item.spec.cancel or item.spec.suspend:
            continue
        if item.metadata.name in names and any(
            model.api_key_secret_ref is None and not model.base_url for model in models
        ):
            raise UsageError(
                "no API key is given, so nothing was started",
                attempted="run",
                on=item.metadata.name,
                advice=f"Set {API_KEY}, name a Secret in model.apiKeySecretRef, or play a script "
                f"with --model-script. Then: {again}",
            )


async def _follow(objects: UserCluster, names: Sequence[str], again: ResumeCommand) -> int:
    with Progress() as progress:
        while True:
            runs = [found for name in names if (found := await _find(objects, name))]
            progress.show(runs)
            left = [item for item in runs if not (item.status and item.status.phase.terminal)]
            if not left:
                return _verdict(runs, names, await _gone_well(objects, names, runs))
            if all(waits_for_people(item) for item in left):
                asked = [a for a in await objects.list_approvals() if a.spec.decision is None]
                if all(_still_waits(item, asked) for item in left):
                    say_what_to_do(left, asked, again)
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


async def _gone_well(
    objects: UserCluster, names: Sequence[str], runs: Sequence[AgentRun]
) -> set[str]:
    """Runs that succeeded and were deleted since, by their time to live: their Events tell."""
    gone = set(names) - {item.metadata.name for item in runs}
    return {name for name in gone if await _last_event(objects, name) == "Succeeded"}


async def _last_event(objects: UserCluster, name: str) -> str:
    try:
        return next((event.reason for event in reversed(await objects.events(name))), "")
    except NotFound:
        return ""


def _verdict(runs: Sequence[AgentRun], names: Sequence[str], gone_well: Collection[str]) -> int:
    done = [item for item in runs if item.status and item.status.phase is Phase.SUCCEEDED]
    for item in runs:
        status = item.status
        if status and status.phase is not Phase.SUCCEEDED:
            click.echo(
                f"{item.metadata.name}: {status.phase} {status.reason} {visible(status.message)}",
                err=True,
            )
    for name in set(names) - {item.metadata.name for item in runs} - {*gone_well}:
        click.echo(f"{name}: it was deleted", err=True)
    return 0 if len(done) + len(gone_well) == len(names) else 1


def _still_waits(item: AgentRun, asked: Sequence[Approval]) -> bool:
    """A decision that was just made will be taken up: such a run waits for nobody."""
    status = item.status
    if status is None or status.reason != Reason.APPROVAL_PENDING:
        return True
    return any(approval.spec.run_ref.name == item.metadata.name for approval in asked)


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
