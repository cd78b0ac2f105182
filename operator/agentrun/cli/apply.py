"""Manifests into objects: all of them are checked before the first one is applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click

from agentrun.api import AgentRun
from agentrun.cli.manifests import Manifest
from agentrun.cli.where import Where
from agentrun.cluster.port import UserCluster
from agentrun.errors import AgentRunError, UsageError

T = TypeVar("T")


def in_their_namespace(where: Where, manifests: Sequence[Manifest]) -> Where:
    """Where the manifests belong: followed and decided is what was applied, and nothing beside it."""
    named = dict.fromkeys(_namespace(manifest) for manifest in manifests)
    spaces = [name for name in named if name]
    if where.namespace:
        other = [name for name in spaces if name != where.namespace]
        if other:
            raise UsageError(
                f"metadata.namespace is {other[0]}, but --namespace is {where.namespace}",
                attempted="apply",
            )
        return where
    if len(named) > 1:
        raise UsageError(
            f"the manifests are of several namespaces ({', '.join(spaces)})",
            attempted="apply",
            advice="Apply one namespace at a time, or leave it out and give --namespace.",
        )
    return replace(where, namespace=spaces[0]) if spaces else where


async def apply_all(objects: UserCluster, manifests: Sequence[Manifest]) -> list[str]:
    """Names of the applied runs. A refusal names the file; then nothing at all was applied."""
    for manifest in manifests:
        await _named(manifest, objects.check)
    _demand_runs(manifests)
    names: list[str] = []
    for manifest in manifests:
        applied = await _named(manifest, objects.apply)
        click.echo(f"{applied.kind.lower()}/{applied.key.name} {applied.outcome}", err=True)
        if applied.kind == "AgentRun":
            names.append(applied.key.name)
    return names


def generated(manifests: Sequence[Manifest]) -> bool:
    """Whether applying the same files again would make other runs."""
    return any(not _metadata(manifest).get("name") for manifest in manifests)


async def unfinished(objects: UserCluster) -> list[AgentRun]:
    """The runs that have not ended."""
    runs = await objects.list_runs()
    return [run for run in runs if not (run.status and run.status.phase.terminal)]


def _demand_runs(manifests: Sequence[Manifest]) -> None:
    kinds = [manifest.document.get("kind") for manifest in manifests]
    if "AgentRun" not in kinds:
        raise UsageError(
            "no AgentRun among the manifests",
            attempted="run",
            on=", ".join(manifest.source for manifest in manifests),
        )
    objects = Counter(
        (manifest.document.get("kind"), str(name))
        for manifest in manifests
        if (name := _metadata(manifest).get("name"))
    )
    for (kind, name), count in objects.items():
        if count > 1:
            raise UsageError(f"{count} manifests of {kind} have the name {name}", attempted="apply")


async def _named(manifest: Manifest, work: Callable[[Mapping[str, Any]], Awaitable[T]]) -> T:
    try:
        return await work(manifest.document)
    except AgentRunError as error:
        raise UsageError(
            error.message,
            attempted=error.attempted or "apply",
            on=", ".join(filter(None, (manifest.source, error.on))),
            advice=error.advice,
        ) from None


def _namespace(manifest: Manifest) -> str | None:
    """The namespace it names; one that is no string is refused where the fields are checked."""
    name = _metadata(manifest).get("namespace")
    return name if isinstance(name, str) else None


def _metadata(manifest: Manifest) -> Mapping[str, Any]:
    metadata = manifest.document.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}
