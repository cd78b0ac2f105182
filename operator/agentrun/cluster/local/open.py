"""Opening a state folder, with the real clock, identities and user."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentrun.api import AgentRun
from agentrun.api.validation import validate_manifest
from agentrun.cluster.local.adapter import LocalCluster
from agentrun.cluster.local.folder import StateFolder
from agentrun.cluster.local.pod_spec import Commands
from agentrun.cluster.local.state import LocalState
from agentrun.cluster.local.user import LocalUserCluster, Person
from agentrun.errors import UsageError


def open_local_cluster(
    root: Path, *, commands: Commands | None = None, ambient: Mapping[str, str] | None = None
) -> LocalCluster:
    """The controller's side of the folder. ``ambient`` is what runners inherit (``os.environ``)."""
    return LocalCluster(
        _open(root, ambient), host=socket.gethostname(), commands=commands or Commands()
    )


def open_local_user(
    root: Path,
    *,
    admit: Callable[[Mapping[str, Any]], AgentRun] | None = None,
    namespace: str = "default",
) -> LocalUserCluster:
    """The person's side. ``admit`` checks a manifest; the default knows no prices."""
    return LocalUserCluster(
        _open(root, None),
        this_person(),
        admit=admit or (lambda obj: validate_manifest(obj, local=True)),
        namespace=namespace,
    )


def this_person() -> Person:
    """The operating system's user, by the process and not by the environment."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    return Person(name, frozenset(map(_group_name, {os.getgid(), *os.getgroups()})))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _open(root: Path, ambient: Mapping[str, str] | None) -> LocalState:
    try:
        folder = StateFolder.open(root)
    except OSError as error:
        raise UsageError(
            error.strerror or type(error).__name__,
            attempted="make the state folder",
            on=str(root),
            advice="Name another one with --state",
        ) from None
    return LocalState(
        folder,
        clock=lambda: datetime.now(UTC),
        new_uid=lambda: str(uuid.uuid4()),
        ambient=dict(os.environ) if ambient is None else ambient,
    )
