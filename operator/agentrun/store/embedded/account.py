"""Under which account Postgres runs, and where it may live.

Postgres refuses to run as root, and whoever it runs as must be able to reach its data and its
program. Nobody's folders are made readable for that: as root, what cannot be reached lives below
``/var/lib/agentrun`` instead, and the state folder remembers where.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from agentrun.errors import UsageError

_ELSEWHERE = Path("/var/lib/agentrun")
_POINTER = "moved-to"
_ORIGIN = "moved-from"


@dataclass(frozen=True, slots=True)
class Account:
    """Whom Postgres runs as: ``uid`` None means as ourselves."""

    uid: int | None
    gid: int | None

    def give(self, path: Path) -> None:
        """Make the account the owner of a path."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def reaches(self, path: Path) -> bool:
        """Whether the account may walk to the path."""
        if self.uid is None:
            return True
        return all(self._walks(parent) for parent in path.resolve().parents)

    def _walks(self, folder: Path) -> bool:
        stat = folder.stat()
        if stat.st_uid == self.uid:
            return bool(stat.st_mode & 0o100)
        if stat.st_gid == self.gid:
            return bool(stat.st_mode & 0o010)
        return bool(stat.st_mode & 0o001)


def choose_account() -> Account:
    """Ourselves, or an unprivileged account if we are root."""
    if os.geteuid() != 0:
        return Account(None, None)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise UsageError(
        "Postgres cannot run as root and there is no account postgres or nobody",
        attempted="start the embedded database",
        advice="Run as another user, or name a database with --dsn.",
    )


def home_for(folder: Path, account: Account) -> Path:
    """The folder that Postgres gets: ``folder``/server, or another that the account can reach."""
    here = folder / "server"
    pointer = folder / _POINTER
    if pointer.exists():
        there = Path(pointer.read_text(encoding="utf-8").strip())
        if there.is_dir():
            return there
    elif account.reaches(here):
        here.mkdir(mode=0o700, exist_ok=True)
        account.give(here)
        return here
    return _move_away(folder, pointer, account)


def _move_away(folder: Path, pointer: Path, account: Account) -> Path:
    _ELSEWHERE.mkdir(mode=0o755, parents=True, exist_ok=True)
    _sweep()
    there = _ELSEWHERE / secrets.token_hex(8)
    there.mkdir(mode=0o700)
    (there / _ORIGIN).write_text(f"{folder.resolve()}\n", encoding="utf-8")
    account.give(there)
    pointer.write_text(f"{there}\n", encoding="utf-8")
    return there


def _sweep() -> None:
    """Remove homes whose state folder is gone or has another home now."""
    for there in _ELSEWHERE.iterdir():
        origin = there / _ORIGIN
        if not origin.is_file() or (there / "data" / "postmaster.pid").exists():
            continue
        pointer = Path(origin.read_text(encoding="utf-8").strip()) / _POINTER
        if not pointer.is_file() or pointer.read_text(encoding="utf-8").strip() != str(there):
            shutil.rmtree(there, ignore_errors=True)


def program_for(install: Path, account: Account) -> Path:
    """The installation itself, or a copy that the account can reach."""
    if account.reaches(install / "bin" / "postgres"):
        return install
    stamp = int((install / "bin" / "postgres").stat().st_mtime)
    copy = _ELSEWHERE / f"{install.name}-{stamp}"
    if not copy.is_dir():
        _ELSEWHERE.mkdir(mode=0o755, parents=True, exist_ok=True)
        half = _ELSEWHERE / f"{copy.name}.{secrets.token_hex(4)}"
        shutil.copytree(install, half, symlinks=True)
        try:
            half.rename(copy)
        except OSError:  # another process was faster
            shutil.rmtree(half)
    return copy
