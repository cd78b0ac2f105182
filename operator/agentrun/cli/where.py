"""Where a verb works: a local state folder, or the current context of a cluster."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agentrun.cli.parameters import bare
from agentrun.cluster.port import UserCluster
from agentrun.errors import StoreUnavailable, UsageError
from agentrun.run.log import Log, blob_names
from agentrun.store.port import OperatorStore

DEFAULT_STATE = ".agentrun"
DEFAULT_NAMESPACE = "default"
GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)
"""After the verb, or before it."""


@dataclass(frozen=True, slots=True)
class Where:
    """Local unless ``cluster``. ``dsn`` None: the state folder's own PostgreSQL."""

    cluster: bool = False
    state: Path = Path(DEFAULT_STATE)
    dsn: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    @asynccontextmanager
    async def objects(self) -> AsyncIterator[UserCluster]:
        """The objects, as a person may see and change them."""
        objects: UserCluster
        if self.cluster:
            from agentrun.cluster.kube.open import open_kube_user

            objects = await open_kube_user(
                kubeconfig=Path(self.kubeconfig) if self.kubeconfig else None,
                context=self.context,
                namespace=self.namespace,
            )
        else:
            from agentrun.cluster.local.open import open_local_user

            objects = open_local_user(self.existing_state(), namespace=self.local_namespace)
        try:
            yield objects
        finally:
            await objects.close()

    @asynccontextmanager
    async def record(self) -> AsyncIterator[OperatorStore]:
        """The record in Postgres, for reading."""
        from agentrun.store.operator_store import open_operator_store

        if self.dsn is None and self.cluster:
            raise UsageError(
                "the record is in Postgres",
                attempted="read a run's record",
                advice="Give its address, as this machine reaches it, with --dsn or AGENTRUN_DSN.",
            )
        if self.dsn is not None:
            store = await open_operator_store(self.dsn)
            try:
                await _demand_database(store)
                yield store
            finally:
                await store.close()
            return
        from agentrun.cli.postgres import local_postgres

        async with local_postgres(self.existing_state()) as dsns:
            store = await open_operator_store(dsns.operator)
            try:
                yield store
            finally:
                await store.close()

    @property
    def local_namespace(self) -> str:
        """Local namespaces are only names."""
        return self.namespace or DEFAULT_NAMESPACE

    def existing_state(self) -> Path:
        """The state folder, which must be there: reading never makes one."""
        if not (self.state / "objects.db").exists():
            raise UsageError(
                f"no runs in {self.state}",
                attempted="open the state folder",
                advice="Start one with: agentrun run FILE, or name another folder with --state.",
            )
        return self.state

    async def log(self, name: str) -> Log:
        """Everything recorded about a run."""
        async with self.objects() as objects:
            run = await objects.get_run(name)
        uid = run.metadata.uid or ""
        async with self.record() as store:
            row = await store.run(uid)
            if row is None:
                raise UsageError(
                    "it has not started yet, so there is no record",
                    attempted="read a run's record",
                    on=name,
                    advice="It begins with the first attempt.",
                )
            commits = (await store.commits(uid)).commits
            blobs = await store.blobs(uid, blob_names(commits))
            return Log(uid, row.namespace, row.name, row.spec, row.spec_hash, commits, blobs)


Verb = Callable[..., Awaitable[int | None]]


def placed(verb: Verb) -> Callable[..., Any]:
    """A verb as a command function: options that say where, an event loop, an exit code.

    The verb gets a ``Where`` first, then its own arguments.
    """

    @click.option(
        "--state",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(DEFAULT_STATE),
        show_default=True,
        help="Folder of local mode.",
    )
    @click.option("--dsn", default=lambda: os.environ.get("AGENTRUN_DSN"), help="Postgres to use.")
    @click.option("--kubeconfig", help="With kubectl-agentrun: the kubeconfig to use.")
    @click.option("--context", "kube_context", help="With kubectl-agentrun: the context to use.")
    @click.option("-n", "--namespace", help="Namespace.")
    @functools.wraps(verb)
    def command(
        state: Path,
        dsn: str | None,
        kubeconfig: str | None,
        kube_context: str | None,
        namespace: str | None,
        **arguments: Any,
    ) -> int:
        context = click.get_current_context()
        base = context.obj if isinstance(context.obj, Where) else Where()
        _demand_place(context, base)
        where = replace(
            base,
            state=state,
            dsn=dsn,
            kubeconfig=kubeconfig,
            context=kube_context,
            namespace=namespace,
        )
        if arguments.get("name"):
            arguments["name"] = bare(arguments["name"])
        try:
            return asyncio.run(_coroutine(verb, where, arguments)) or 0
        except KeyboardInterrupt:
            raise click.Abort from None

    return command


def hand_on(program: click.Context, place: Mapping[str, str]) -> None:
    """Options that say where may stand before the verb too, as kubectl's may."""
    verb = program.invoked_subcommand
    if not place or verb is None or not isinstance(program.command, click.Group):
        return
    command = program.command.commands[verb]
    known = {parameter.name for parameter in command.params}
    for name in place:
        if name not in known:
            raise click.UsageError(f"{verb} takes no --{name.removeprefix('kube_')}")
    program.default_map = {verb: dict(place)}


async def _demand_database(store: OperatorStore) -> None:
    try:
        await store.ping()
    except StoreUnavailable as error:
        raise no_database(error) from None


def no_database(error: StoreUnavailable) -> UsageError:
    """A given database that does not answer, for whoever typed its address."""
    return UsageError(
        error.message,
        attempted="open the database",
        advice="See that it runs, and that --dsn or AGENTRUN_DSN is its address.",
    )


def _demand_place(context: click.Context, where: Where) -> None:
    """An option of the other program would be ignored, and the verb would act somewhere else."""
    foreign = ("state",) if where.cluster else ("kubeconfig", "kube_context")
    other = "agentrun" if where.cluster else "kubectl-agentrun"
    for parameter in context.command.params:
        if parameter.name in foreign and context.get_parameter_source(parameter.name) in GIVEN:
            raise click.UsageError(f"{parameter.opts[-1]} is an option of {other}")


async def _coroutine(verb: Verb, where: Where, arguments: dict[str, Any]) -> int | None:
    return await verb(where, **arguments)
